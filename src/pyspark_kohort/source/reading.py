"""Base of all readers: reading on executors, and the conversion of ranges to Spark's partitions."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kohort.errors import KohortError
from pyspark_kohort import worker_caches
from pyspark_kohort.net import BlockingCluster
from pyspark_kohort.options import OnCorrupt, Options
from pyspark_kohort.source import plan
from pyspark_kohort.source.plan import Range

if TYPE_CHECKING:
    import pyarrow as pa


class RangeReader:
    """Base class of the readers.

    Spark pickles a reader for its executors, so it holds plain values and connects at its first
    request only.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._connected: BlockingCluster | None = None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the records of one task's ranges, on an executor."""
        if not partition.value:  # Spark converts an empty list of partitions to this
            return iter(())
        try:
            from pyspark.sql.pandas.types import to_arrow_schema

            from pyspark_kohort.source.fetch import read_ranges
        except ImportError as error:
            raise KohortError(
                f"{socket.gethostname()} has no {error.name} for {sys.executable}: executors need the extra"
                " `spark` (see docs/spark.md, On a cluster)."
            ) from None
        worker_caches.settle()
        return read_ranges(
            partition.value,
            to_arrow_schema(self._schema, timezone="UTC"),
            self._options.broker,
            fail_on_data_loss=self._options.fail_on_data_loss,
            skip_corrupt=self._options.on_corrupt is OnCorrupt.SKIP,
        )

    @property
    def _cluster(self) -> BlockingCluster:
        if self._connected is None:
            self._connected = BlockingCluster(self._options.broker)
        return self._connected

    def _disconnect(self) -> None:
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    def _tasks(self, planned: Sequence[Range]) -> list[InputPartition]:
        options = self._options
        parts = plan.tasks(
            planned,
            cores=options.slots or os.cpu_count() or 1,
            most=options.max_tasks,
            least=options.min_partitions,
            most_rows=options.max_partition_rows,
        )
        return [InputPartition(part) for part in parts]
