"""Sources of raw records of `__consumer_offsets`, and the tasks that read them.

The source is a cluster, through the reader of `format("kohort")` with all its options, or a copy of
brokers' data directories: the segments of `__consumer_offsets-*`, so that no cluster is needed. The
driver plans, and tasks decode what they read in the same process. Spark's own interface for such a
reader takes three more Python processes.
"""

from __future__ import annotations

import logging
import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.analytics.arrow_functions import Mapped
from kohort.analytics.schema import HISTORY_DDL, RAW
from kohort.errors import ConfigError, KohortError
from kohort.model import Millis, TopicPartition
from pyspark_kohort.source import BatchReader, Range

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"
_READ_AT_ONCE = 16 << 20
_BYTES_WORTH_A_TASK = 16 << 20
_BYTES_OF_A_RECORD = 100
"""Size of a small record in a segment, with its part of a batch's header."""
_DEFAULTS = {
    "subscribe": OFFSETS_TOPIC,
    "kafka.isolation.level": "read_committed",
    # Splits a shard in which one group makes half of all commits into many tasks.
    "maxrecordsperpartition": "1000000",
}

Task = Callable[[], "Iterator[pa.RecordBatch]"]
"""Function that yields raw records, those of one shard in the order of their offsets. Spark pickles it."""


Servers = str | Mapping[str, str]
"""Addresses of brokers, or options of `format("kohort")` with their addresses and with TLS and SASL."""


def options_of(servers: Servers) -> dict[str, str]:
    """Return options of `format("kohort")`."""
    return {"kafka.bootstrap.servers": servers} if isinstance(servers, str) else dict(servers)


def estimated_records(
    servers: Servers | None, segments: str | None, raw: str | None, topic: str = OFFSETS_TOPIC
) -> int | None:
    """Return about how many records of the topic an analysis of this source reads; None if only Spark can tell.

    Compaction removes records of a cluster, so it has fewer than that. Raises KohortError if the
    cluster cannot be asked.
    """
    if servers is not None:
        reader = BatchReader.of(_DEFAULTS | options_of(servers) | {"subscribe": topic}, RAW.names)
        ranges: Iterator[Range] = chain.from_iterable(task.value for task in reader.partitions())
        return sum(part.size for part in ranges)
    if segments is not None:
        return sum(path.stat().st_size for path in Path(segments).glob(f"**/{topic}-*/*.log")) // _BYTES_OF_A_RECORD
    if raw is None or not Path(raw).is_dir():
        return None
    from pyarrow.parquet import read_metadata

    return sum(read_metadata(path).num_rows for path in Path(raw).glob("**/*.parquet"))


def cluster_tasks(given: dict[str, str]) -> list[Task]:
    """Return tasks that read a cluster's topic.

    Takes options of `format("kohort")` in lower case, including the bootstrap servers.
    """
    reader = BatchReader.of(_DEFAULTS | given, RAW.names)
    return [partial(reader.read, part) for part in reader.partitions()]


def segment_tasks(path: str, topic: str = OFFSETS_TOPIC) -> list[Task]:
    """Return tasks that read a topic's segments in any directory below the path.

    A task reads one large segment or several small ones. Segments are at most 100 MB by default,
    and mostly much smaller: a cluster has fifty shards. Raises ConfigError if there are none.
    """
    found = sorted(Path(path).glob(f"**/{topic}-*/*.log"))
    if not found:
        raise ConfigError(f"{path} has no segments of {topic} (directories {topic}-N).")
    return [partial(read_segments, pack) for pack in _packed(found)]


def has_segments(path: str, topic: str) -> bool:
    """Return whether a directory below the path has a segment of the topic."""
    return next(Path(path).glob(f"**/{topic}-*/*.log"), None) is not None


def decoded_tasks(spark: SparkSession, tasks: Sequence[Task], window_ms: Millis) -> Mapped:
    """Return rows of the history, which are decoded by the tasks that read them."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from kohort.analytics.decoding import Decoder

        return Decoder(window_ms).decode(_run(tasks, batches))

    return Mapped(_numbered(spark, tasks), decode, HISTORY_DDL)


def values_of_tasks(spark: SparkSession, tasks: Sequence[Task]) -> Mapped:
    """Return the column `value` of the records."""

    def values(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (raw.select(["value"]) for raw in _run(tasks, batches))

    return Mapped(_numbered(spark, tasks), values, "value BINARY")


def _numbered(spark: SparkSession, tasks: Sequence[Task]) -> DataFrame:
    """Return a frame with one row per task, each in its own partition."""
    return spark.range(0, len(tasks), 1, max(1, len(tasks)))


def _run(tasks: Sequence[Task], numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for n in batch.column(0).to_numpy():
            yield from tasks[n]()


def decoded_rows(raw: DataFrame, window_ms: Millis) -> Mapped:
    """Return rows of the history from the columns of `RAW`; batches of a stream are aggregated separately."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from kohort.analytics.decoding import Decoder

        return Decoder(window_ms).decode(batches)

    return Mapped(raw.select(*RAW.names), decode, HISTORY_DDL)


def _packed(segments: Iterable[Path]) -> list[list[str]]:
    """Group adjacent segments up to the size of a task; omit empty ones."""
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
    """Read segments one after the other."""
    return chain.from_iterable(read_segment(Path(path)) for path in paths)


def read_segment(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the raw records of a segment, without those of control batches. Raises BatchError if it is damaged.

    An incomplete last batch is omitted, as a broker would truncate it. Raises KohortError if other
    segments follow, because then the copy must be incomplete.
    """
    from kohort.columns import Decoder, index_batches

    shard = int(path.parent.name.rpartition("-")[2])
    tp = TopicPartition(OFFSETS_TOPIC, shard)
    decoder = Decoder(RAW)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        at, size = 0, _READ_AT_ONCE
        while at < len(mapped):
            # A view would keep the file mapped. A copy of a few megabytes releases it, and bounds the memory.
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
    """Warn if the last segment ends within a batch. Raises KohortError for other segments: the copy is incomplete.

    Brokers write to the end of the last segment only.
    """
    following = max(path.parent.glob("*.log"), key=lambda segment: segment.name)
    if following != path:
        raise KohortError(
            f"{path} ends within a batch, at byte {at} of {size}, and {following.name} follows it: the copy is not"
            " whole. Copy it again, or leave the directory out."
        )
    _log.warning("%s ends within a batch: its last %d bytes are ignored", path, size - at)
