"""The data source that Spark finds under the name `kohort`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from kohort.errors import ConfigError
from pyspark_kohort import options
from pyspark_kohort.columns import ddl

if TYPE_CHECKING:
    from pyspark_kohort.options import Options


class DefaultSource(DataSource):
    """Kafka topics for Spark; options and columns are those of spark-sql-kafka."""

    @classmethod
    def name(cls) -> str:
        """Not `kafka`: Spark keeps that name for its own."""
        return "kohort"

    def schema(self) -> str:
        return ddl(include_headers=str(self.options.get("includeHeaders", "false")).lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyspark_kohort.batch import BatchReader

        return BatchReader(self._checked(schema, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pyspark_kohort.stream import StandaloneReader

        return StandaloneReader(self._checked(schema, streaming=True), schema)

    def _checked(self, schema: StructType, *, streaming: bool) -> Options:
        _check_columns(schema)
        return options.parse(dict(self.options), streaming=streaming)


def _check_columns(schema: StructType) -> None:
    """A query may ask for fewer columns, not for others: fewer are read several times faster."""
    known = StructType.fromDDL(ddl(include_headers=True))
    assert isinstance(known, StructType)
    for field in schema:
        if field.name not in known.names:
            raise ConfigError(f"Column {field.name} is unknown to format kohort, which has {', '.join(known.names)}.")
        if field.dataType != known[field.name].dataType:
            kind = known[field.name].dataType.simpleString()
            raise ConfigError(f"Column {field.name} is {kind}, not {field.dataType.simpleString()}; cast it instead.")
