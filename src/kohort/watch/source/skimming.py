"""Leave out commits that later commits of the same key replace, before anything is decoded. Pure.

An hour of history has millions of commits, and only the last one of each partition matters, except
around rebalances: there, commits tell when members stopped and when they read first.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kohort.model import Millis
from kohort.watch.reader import LogRecord

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from kohort.client import PartitionBatch

_R = TypeVar("_R", bound=LogRecord)

WINDOW_MS = 70_000
"""Time after any other record of a group in the same partition for which all commits are kept.

A rebalance waits for first commits for a minute.
"""
_LAST_COMMIT_KEY = b"\x00\x01"
"""Types of keys up to this one are commits."""
_TYPE_SIZE = 2
_COLUMNS = ["offset", "timestamp", "key", "value"]


class SkimmedRecord(NamedTuple):
    """Record that matters."""

    partition: int
    offset: int
    timestamp: Millis
    key: bytes | None
    value: bytes | None


class Skimmer:
    """Skimmer of a log that is read in batches, those of one partition in the order of their offsets.

    It keeps each commit that has no later one of its key before the next record of another type in
    its partition, and all commits soon after such a record.
    """

    def __init__(self) -> None:
        self.gaps: set[tuple[int, int]] = set()
        """Partition and offset of the commits in the last batch before which others were left out."""
        self._whole_until: dict[int, Millis] = {}
        """Time up to which all commits are kept, by partition."""

    def skim(self, records: Sequence[_R]) -> list[_R]:
        """Return the records that matter."""
        self.gaps = set()
        kept: list[_R | None] = list(records)
        lasts: dict[int, dict[bytes, int]] = {}
        partition, last, until = -1, dict[bytes, int](), 0
        for index, record in enumerate(records):
            if record.partition != partition:
                partition = record.partition
                last, until = lasts.setdefault(partition, {}), self._whole_until.get(partition, 0)
            key = record.key
            if key is None or len(key) < _TYPE_SIZE or key[:_TYPE_SIZE] > _LAST_COMMIT_KEY:
                until = self._whole_until[partition] = max(until, record.timestamp + WINDOW_MS)
                last.clear()
            elif record.timestamp > until:
                if (before := last.get(key)) is not None:
                    self.gaps.discard((partition, records[before].offset))
                    self.gaps.add((partition, record.offset))
                    kept[before] = None
                last[key] = index
        return [record for record in kept if record is not None]

    def skim_columns(self, batches: "Iterable[PartitionBatch]") -> list[SkimmedRecord]:
        """Do the same with Arrow batches, a hundred times as fast. Requires the extra `fast`."""
        self.gaps = set()
        import pyarrow as pa

        by_partition = defaultdict[int, list["pa.RecordBatch"]](list)
        for batch in batches:
            by_partition[batch.partition.partition].append(batch.records.select(_COLUMNS))
        kept: list[SkimmedRecord] = []
        for partition, some in by_partition.items():
            [whole] = pa.Table.from_batches(some).combine_chunks().to_batches()
            kept += self._batch(partition, whole)
        return kept

    def _batch(self, partition: int, batch: "pa.RecordBatch") -> list[SkimmedRecord]:
        import numpy as np

        keys = batch.column("key")
        times = _milliseconds(batch.column("timestamp"))
        commits = _are_commits(keys)
        until = np.where(commits, self._whole_until.get(partition, 0), times + WINDOW_MS)
        until = np.maximum.accumulate(np.maximum(until, self._whole_until.get(partition, 0)))
        if not commits.all():
            self._whole_until[partition] = int(until[-1])
        kept = ~commits | (times <= until)
        others = np.flatnonzero(~kept)
        if len(others):
            # Two commits of one key replace each other only if no other record is between them.
            codes = keys.take(_array(others)).dictionary_encode().indices.to_numpy().astype(np.int64)
            runs = np.cumsum(~commits)[others]
            if runs[0] != runs[-1]:
                codes += (runs - runs[0]) * (codes.max() + 1)
                _, codes = np.unique(codes, return_inverse=True)
            last, first = np.empty(codes.max() + 1, np.int64), np.empty(codes.max() + 1, np.int64)
            last[codes] = others  # of an index that is repeated, the last value stays
            first[codes[::-1]] = others[::-1]
            kept[last] = True
            behind = batch.column("offset").to_numpy()[last[last != first]]
            self.gaps.update((partition, offset) for offset in behind.tolist())
        matters = np.flatnonzero(kept)
        chosen = batch.take(_array(matters))
        offsets, stamps = chosen.column("offset").to_numpy().tolist(), times[matters].tolist()
        rows = zip(offsets, stamps, chosen.column("key").to_pylist(), chosen.column("value").to_pylist(), strict=True)
        return [SkimmedRecord(partition, offset, at, key, value) for offset, at, key, value in rows]


def _array(rows: "np.ndarray[Any, Any]") -> "pa.Array[Any]":
    import pyarrow as pa

    # pa.array would import pandas, where it is installed.
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows.tobytes())])


def _milliseconds(column: "pa.Array[Any]") -> "np.ndarray[Any, Any]":
    import pyarrow as pa

    return column.view(pa.int64()).to_numpy() // 1_000


def _are_commits(keys: "pa.Array[Any]") -> "np.ndarray[Any, Any]":
    """Return whether each key is that of a commit."""
    import numpy as np

    _, starts, data = keys.buffers()
    assert starts is not None
    places = np.frombuffer(memoryview(starts), np.int32)[keys.offset : keys.offset + len(keys) + 1]
    found = keys.is_valid().to_numpy(zero_copy_only=False) & (np.diff(places) >= _TYPE_SIZE)
    if data is not None:
        bytes_, at = np.frombuffer(memoryview(data), np.uint8), places[:-1][found]
        kinds = bytes_[at].astype(np.int32) * 256 + bytes_[at + 1]
        found[found] = kinds <= int.from_bytes(_LAST_COMMIT_KEY, "big")
    return found
