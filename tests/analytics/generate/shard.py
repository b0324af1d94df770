"""One shard of a made-up `__consumer_offsets` as segments: its groups' commits by columns, their records between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kohort.columns.encoder import PartitionEncoder, columns_of
from kohort.model import Millis
from kohort.wire.batches import Buffer, Codec, pack_batch, place
from tests.analytics.generate.records import commit_key, records_of
from tests.analytics.generate.story import SECOND, Story

_COMMITS_AT_ONCE = 500_000
_BATCH_BYTES = 8 << 10
_SEGMENT_BYTES = 64 << 20
_VALUE = np.dtype(
    [
        ("version", ">i2"),
        ("offset", ">i8"),
        ("epoch", ">i4"),
        ("metadata", "u1"),
        ("at", ">i8"),
        ("tag", "V3"),
        ("id", "V16"),
    ]
)
"""A committed offset of version 4 without metadata, with one tagged field: the topic's id."""


@dataclass(slots=True)
class Series:
    """A group's commits of one partition."""

    story: Story
    partition: int
    interval_ms: float
    phase_ms: float
    begins: Any
    ends: Any
    moves: Any
    last_before: Any
    """Of each move the last commit before it, as it is written; -1 before there is one."""
    first_after: Any
    commits: int = 0

    @classmethod
    def of(cls, story: Story, partition: int, interval_ms: float, phase_ms: float) -> Series:
        spans = story.spans[partition]
        moves = np.array([move.at for move in story.moves if move.partition == partition], np.int64)
        begins = np.array([span.begin for span in spans], np.int64)
        ends = np.array([span.end for span in spans], np.int64)
        none = np.full(len(moves), -1, np.int64)
        return cls(story, partition, interval_ms, phase_ms, begins, ends, moves, none, none.copy())

    def commit_times(self, begin: Millis, end: Millis) -> Any:
        """Return the commit times in [begin, end): one per interval while a member has the partition."""
        origin = self.story.begin + self.phase_ms
        first = max(0, int(np.ceil((begin - origin) / self.interval_ms)))
        last = int(np.ceil((end - origin) / self.interval_ms))
        times = (origin + np.arange(first, max(first, last)) * self.interval_ms).astype(np.int64)
        times = times[(times >= begin) & (times < end)]
        if not len(self.begins):
            return times[:0]
        spans = np.searchsorted(self.begins, times, "right") - 1
        times = times[(spans >= 0) & (times < self.ends[spans])]
        self._note(times)
        return times

    def committed(self, times: Any) -> Any:
        story = self.story
        behind = story.behind_ms + story.slower * (times - story.begin)
        return np.maximum(0, story.rate * ((times - behind).astype(np.int64) - story.begin) / SECOND).astype(np.int64)

    def _note(self, times: Any) -> None:
        self.commits += len(times)
        if not len(times) or not len(self.moves):
            return
        at = np.searchsorted(times, self.moves)
        before, after = at > 0, (at < len(times)) & (self.first_after < 0)
        self.last_before[before] = times[at[before] - 1]
        self.first_after[after] = times[at[after]]


def write_shard(directory: Path, series: Sequence[Series], begin: Millis, end: Millis) -> int:
    """Write the segments of one shard; how many records there are."""
    directory.mkdir(parents=True)
    log = _Segments(directory)
    stories = {id(partition_series.story): partition_series.story for partition_series in series}.values()
    said = sorted(
        (
            (generation.at, story.group_id, records_of(story, generation))
            for story in stories
            for generation in story.generations
        ),
        key=lambda entry: entry[:1],
    )
    keys = pa.array(
        [commit_key(partition_series.story, partition_series.partition) for partition_series in series], pa.binary()
    )
    per_ms = sum(1 / partition_series.interval_ms for partition_series in series)
    step = max(1, int(min(_COMMITS_AT_ONCE / per_ms, end - begin))) if series else end - begin
    said_at = 0
    for slab in range(begin, end, step):
        times, which, offsets = _slab(series, slab, min(slab + step, end))
        cut = 0
        while said_at < len(said) and said[said_at][0] < slab + step:
            at, _, pairs = said[said_at]
            here = int(np.searchsorted(times, at))
            log.append(*_columns(series, keys, times[cut:here], which[cut:here], offsets[cut:here]))
            log.append(
                pa.array([key for key, _ in pairs], pa.binary()),
                pa.array([value for _, value in pairs], pa.binary()),
                np.full(len(pairs), at, np.int64),
            )
            cut = here
            said_at += 1
        log.append(*_columns(series, keys, times[cut:], which[cut:], offsets[cut:]))
    log.close()
    return log.next_offset


def _slab(series: Sequence[Series], begin: Millis, end: Millis) -> tuple[Any, Any, Any]:
    """Times, series and offsets of all commits in [begin, end), in the order of time."""
    parts = [(partition_series.commit_times(begin, end), partition_series) for partition_series in series]
    times = np.concatenate([part for part, _ in parts]) if parts else np.zeros(0, np.int64)
    which = np.repeat(np.arange(len(parts)), [len(part) for part, _ in parts])
    offsets = np.concatenate([partition_series.committed(part) for part, partition_series in parts]) if parts else times
    order = np.argsort(times, kind="stable")
    return times[order], which[order], offsets[order]


def _columns(series: Sequence[Series], keys: Any, times: Any, which: Any, offsets: Any) -> tuple[Any, Any, Any]:
    """Keys and values of commits, and their times."""
    rows = len(times)
    values = np.zeros(rows, _VALUE)
    values["version"], values["offset"], values["at"] = 4, offsets, times
    values["metadata"] = 1
    values["tag"] = np.void(b"\1\0\x10")
    values["id"] = (
        np.array([np.void(partition_series.story.topic_id.bytes) for partition_series in series], "V16")[which]
        if rows
        else b""
    )
    ends = np.arange(rows + 1, dtype=np.int32) * _VALUE.itemsize
    packed = pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(values.tobytes())]
    )
    return keys.take(pa.array(which)), packed, times


class _Segments:
    """Appends records as batches, and begins a new file when one is full."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = (directory / f"{0:020d}.log").open("wb")
        self.next_offset = 0

    def append(self, keys: Any, values: Any, times: Any) -> None:
        """Records in order; those of one batch have the time of its first."""
        if not len(keys):
            return
        columns = columns_of(keys, values, None)
        encoder = PartitionEncoder(_BATCH_BYTES)
        row = 0
        for count, records in self._batches(encoder, columns, len(keys)):
            batch = pack_batch(records, count, int(times[row]), Codec.NONE, -1, -1, -1)
            place(batch, self.next_offset, 0)
            if self._file.tell() + len(batch) > _SEGMENT_BYTES and self._file.tell():
                self._file.close()
                self._file = (self._directory / f"{self.next_offset:020d}.log").open("wb")
            self._file.write(batch)
            self.next_offset += count
            row += count

    def close(self) -> None:
        self._file.close()

    @staticmethod
    def _batches(encoder: PartitionEncoder, columns: Any, rows: int) -> Iterator[tuple[int, Buffer]]:
        yield from encoder.add(columns, np.arange(rows, dtype=np.int64))
        if encoder.count:
            yield encoder.take()
