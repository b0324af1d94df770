"""Data source that Spark finds under the name `kohort`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from kohort.errors import ConfigError
from pyspark_kohort import options
from pyspark_kohort.columns import COLUMNS, WITH_HEADERS, check_columns, check_written_columns

if TYPE_CHECKING:
    from pyspark_kohort.options import Options
    from pyspark_kohort.sink import SinkOptions


class DefaultSource(DataSource):
    """Data source for Kafka topics, with the options and columns of spark-sql-kafka."""

    slots: int | None = None
    """Number of tasks that Spark runs at once, or None if unknown.

    `register` asks Spark in the driver; the processes that plan a query cannot.
    """

    @classmethod
    def name(cls) -> str:
        """Return `kohort`; Spark reserves `kafka` for its own source."""
        return "kohort"

    def schema(self) -> StructType:
        return WITH_HEADERS if str(self.options.get("includeHeaders", "")).lower() == "true" else COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyspark_kohort.source import BatchReader, FilteringReader

        checked = self._checked(schema, streaming=False)
        return (FilteringReader if checked.filter_pushdown else BatchReader)(checked, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pyspark_kohort.member import MemberReader
        from pyspark_kohort.source import StandaloneReader

        checked = self._checked(schema, streaming=True)
        kind = MemberReader if checked.mode is options.GroupMode.MEMBER else StandaloneReader
        return kind(checked, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyspark_kohort.sink import BatchWriter, TransactionalBatchWriter

        if overwrite:
            raise ConfigError('A topic cannot be overwritten: use .mode("append").')
        checked = self._checked_to_write(schema)
        return BatchWriter(checked) if checked.transactional_id is None else TransactionalBatchWriter(checked)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from pyspark_kohort.sink import StreamWriter, TransactionalStreamWriter

        # Rows are appended in complete mode, too, as in spark-sql-kafka.
        checked = self._checked_to_write(schema)
        return StreamWriter(checked) if checked.transactional_id is None else TransactionalStreamWriter(checked)

    def _checked_to_write(self, schema: StructType) -> SinkOptions:
        from pyspark_kohort.sink import parse_sink_options

        checked = parse_sink_options(dict(self.options))
        check_written_columns(schema, checked.topic)
        return checked

    def _checked(self, schema: StructType, *, streaming: bool) -> Options:
        check_columns(schema)
        return replace(options.parse(dict(self.options), streaming=streaming), slots=self.slots)


def with_slots(slots: int) -> type[DefaultSource]:
    """Return the source for a Spark that runs `slots` tasks at once.

    The class belongs to no module, so Spark pickles it by value.
    """
    return type("DefaultSource", (DefaultSource,), {"slots": slots})
