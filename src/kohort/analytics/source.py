"""Where raw records of `__consumer_offsets` come from, and how reading them becomes tasks.

From a cluster, by the reader of `format("kohort")` and with all its options; or from a copy of brokers' data
directories, the segments of `__consumer_offsets-*`, so that a cluster need not be asked at all. The driver plans, and
tasks decode what they read in the same process: Spark's own way to such a reader takes three more processes of Python.
"""

from __future__ import annotations

import logging
import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from kohort.analytics.arrow_functions import Mapped
from kohort.analytics.schema import HISTORY_DDL, RAW
from kohort.errors import ConfigError, KohortError
from kohort.model import Millis, TopicPartition
from pyspark_kohort import options as reading_options
from pyspark_kohort.batch import BatchReader
from pyspark_kohort.columns import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"
_READ_AT_ONCE = 16 << 20
_BYTES_WORTH_A_TASK = 16 << 20
_DEFAULTS = {
    "subscribe": OFFSETS_TOPIC,
    "kafka.isolation.level": "read_committed",
    # A shard whose one group makes half of all commits is many tasks.
    "maxrecordsperpartition": "1000000",
}

Task = Callable[[], "Iterator[pa.RecordBatch]"]
"""Raw records, those of one shard in the order of their offsets. Spark pickles it."""


def cluster_tasks(given: dict[str, str]) -> list[Task]:
    """What reads a cluster's topic. Takes options of `format("kohort")` in lower case, of which the broker is one."""
    options = reading_options.parse(_DEFAULTS | given, streaming=False)
    reader = BatchReader(options, StructType([COLUMNS[name] for name in RAW.names]))
    return [partial(reader.read, part) for part in reader.partitions()]


def segment_tasks(path: str, topic: str = OFFSETS_TOPIC) -> list[Task]:
    """What reads a topic's segments in any directory below the path, a task for some small ones or for a large one.

    They are at most 100 MB by default, and mostly much smaller: a cluster has fifty shards. Raises ConfigError where
    there are none.
    """
    found = sorted(Path(path).glob(f"**/{topic}-*/*.log"))
    if not found:
        raise ConfigError(f"{path} has no segments of {topic} (directories {topic}-N).")
    return [partial(read_segments, pack) for pack in _packed(found)]


def has_segments(path: str, topic: str) -> bool:
    """Whether some directory below the path has a segment of the topic."""
    return next(Path(path).glob(f"**/{topic}-*/*.log"), None) is not None


def decoded_tasks(spark: SparkSession, tasks: Sequence[Task], window_ms: Millis) -> Mapped:
    """Rows of the history, decoded where they are read."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from kohort.analytics.decoding import Decoder

        return Decoder(window_ms).decode(_run(tasks, batches))

    return Mapped(_numbered(spark, tasks), decode, HISTORY_DDL)


def values_of_tasks(spark: SparkSession, tasks: Sequence[Task]) -> Mapped:
    """The column `value` of what is read."""

    def values(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (raw.select(["value"]) for raw in _run(tasks, batches))

    return Mapped(_numbered(spark, tasks), values, "value BINARY")


def _numbered(spark: SparkSession, tasks: Sequence[Task]) -> DataFrame:
    """A row for each task, in a partition of its own."""
    return spark.range(0, len(tasks), 1, max(1, len(tasks)))


def _run(tasks: Sequence[Task], numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for n in batch.column(0).to_numpy():
            yield from tasks[n]()


def decoded_rows(raw: DataFrame, window_ms: Millis) -> Mapped:
    """Rows of the history from the columns of `RAW`; also of a stream, whose batches are then summed up each alone."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from kohort.analytics.decoding import Decoder

        return Decoder(window_ms).decode(batches)

    return Mapped(raw.select(*RAW.names), decode, HISTORY_DDL)


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


def read_segments(paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """One behind the other."""
    return chain.from_iterable(read_segment(Path(path)) for path in paths)


def read_segment(path: Path) -> Iterator[pa.RecordBatch]:
    """The raw records of a segment, without those of control batches. Raises BatchError where it is damaged.

    A last batch that was not written to its end is left out, as a broker would cut it off. Raises KohortError where it
    cannot be that: other segments follow.
    """
    from kohort.columns.decoder import Decoder, index_batches

    shard = int(path.parent.name.rpartition("-")[2])
    tp = TopicPartition(OFFSETS_TOPIC, shard)
    decoder = Decoder(RAW)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        at, size = 0, _READ_AT_ONCE
        while at < len(mapped):
            # A view would keep the file mapped; a copy of some megabytes lets go of it, and bounds what is held.
            piece: Any = mapped[at : at + size]
            batches = index_batches(piece, tp)
            if not batches and at + size < len(mapped):
                size *= 2  # a batch that is larger than a piece
                continue
            if not batches:
                _check_last(path, at, len(mapped))
                break
            size = _READ_AT_ONCE
            yield from decoder.feed(piece, batches, tp, first=0, until=1 << 62)
            at += batches[-1][1]
    yield from decoder.finish()


def _check_last(path: Path, at: int, size: int) -> None:
    """Brokers write to the end of the last segment only; any other one that ends within a batch is half a copy."""
    following = max(path.parent.glob("*.log"), key=lambda segment: segment.name)
    if following != path:
        raise KohortError(
            f"{path} ends within a batch, at byte {at} of {size}, and {following.name} follows it: the copy is not"
            " whole. Copy it again, or leave the directory out."
        )
    _log.warning("%s ends within a batch: its last %d bytes are left out", path, size - at)
