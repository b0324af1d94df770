"""Spark's way in: `spark.read.format("kohort_history")` gives the rows of a history, decoded where they are read.

From a cluster (`kafka.bootstrap.servers`, with all options of `format("kohort")`), or from a copy of a broker's data
directory (`path`): the segments of `__consumer_offsets-*`, so that a cluster need not be asked at all.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kohort.analytics.schema import HISTORY_DDL, RAW
from kohort.errors import ConfigError
from kohort.model import Millis, TopicPartition
from pyspark_kohort import options as reading_options
from pyspark_kohort.batch import BatchReader
from pyspark_kohort.columns import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

OFFSETS_TOPIC = "__consumer_offsets"
WINDOW_MS = 60_000
_READ_AT_ONCE = 16 << 20
_BYTES_WORTH_A_TASK = 16 << 20
_DEFAULTS = {
    "subscribe": OFFSETS_TOPIC,
    "kafka.isolation.level": "read_committed",
    # A shard whose one group makes half of all commits is many tasks.
    "maxrecordsperpartition": "1000000",
}


class HistorySource(DataSource):
    """Beside `path` or the options of `format("kohort")`: `windowMs`, the time that one row of commits covers."""

    @classmethod
    def name(cls) -> str:
        return "kohort_history"

    def schema(self) -> str:
        return HISTORY_DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        given = dict(self.options)
        window_ms = int(given.pop("windowms", WINDOW_MS))
        path = given.pop("path", None)
        if path is not None:
            return SegmentReader(path, window_ms)
        given = _DEFAULTS | given
        return ClusterReader(reading_options.parse(given, streaming=False), window_ms)


class ClusterReader(BatchReader):
    """Our source's reader, whose rows are decoded before Spark sees them."""

    def __init__(self, options: reading_options.Options, window_ms: Millis) -> None:
        super().__init__(options, StructType([COLUMNS[name] for name in RAW.names]))
        self._window_ms = window_ms

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from kohort.analytics.decoding import Decoder

        return Decoder(self._window_ms).decode(super().read(partition))


class SegmentReader(DataSourceReader):
    """Segments of the topic in any directory below the path, a task for some small ones or for a large one.

    They are at most 100 MB by default, and mostly much smaller: a cluster has fifty shards.
    """

    def __init__(self, path: str, window_ms: Millis) -> None:
        self._path = path
        self._window_ms = window_ms

    def partitions(self) -> Sequence[InputPartition]:
        found = sorted(Path(self._path).glob(f"**/{OFFSETS_TOPIC}-*/*.log"))
        if not found:
            raise ConfigError(f"{self._path} has no segments of {OFFSETS_TOPIC} (directories {OFFSETS_TOPIC}-N).")
        return [InputPartition(paths) for paths in _packed(found)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return iter(())
        from kohort.analytics.decoding import Decoder

        raw = chain.from_iterable(read_segment(Path(path)) for path in partition.value)
        return Decoder(self._window_ms).decode(raw)


def _packed(segments: Iterable[Path]) -> list[list[str]]:
    """Neighbours together, up to what is worth a task; empty ones left out."""
    packs: list[list[str]] = []
    room = 0
    for segment in segments:
        size = segment.stat().st_size
        if size and size > room:
            packs.append([])
            room = _BYTES_WORTH_A_TASK
        if size:
            packs[-1].append(str(segment))
            room -= size
    return packs


def read_segment(path: Path) -> Iterator[pa.RecordBatch]:
    """The raw records of a segment, without those of control batches. Raises BatchError where it is damaged.

    A last batch that was not written to its end is left out, as a broker would cut it off.
    """
    from kohort.columns.decoder import Decoder, index_batches

    shard = int(path.parent.name.rpartition("-")[2])
    tp = TopicPartition(OFFSETS_TOPIC, shard)
    decoder = Decoder(RAW)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        at = 0
        while at < len(mapped):
            # A view would keep the file mapped; a copy of some megabytes lets go of it, and bounds what is held.
            piece: Any = mapped[at : at + _READ_AT_ONCE]
            batches = index_batches(piece, tp)
            if not batches:
                break
            yield from decoder.feed(piece, batches, tp, first=0, until=1 << 62)
            at += batches[-1][1]
    yield from decoder.finish()
