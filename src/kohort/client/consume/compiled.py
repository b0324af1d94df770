"""Unpacking of fetched bytes into records through Arrow columns (extra `fast`); see `acceleration`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any

import pyarrow as pa

from kohort.client.consume.consumer_record import ConsumerRecord, TimestampType
from kohort.columns import (
    LAST_OFFSET,
    LEADER_EPOCH,
    SCHEMA,
    Batches,
    BufferPool,
    Decoder,
    has_log_append_time,
    index_batches,
)
from kohort.model import TopicPartition
from kohort.wire.batches import BatchError, Buffer, Header
from kohort.wire.messages.fetch import AbortedTransaction

_KEY, _VALUE, _OFFSET, _TIMESTAMP, _HEADERS = (
    SCHEMA.get_field_index(name) for name in ("key", "value", "offset", "timestamp", "headers")
)
_UNTIL = 1 << 62
_MADE_AT_ONCE = 200
"""Minimum number of rows whose fields are decoded at once, even if a poll asks for fewer."""

_Runs = list[tuple[int, int | None, TimestampType]]
"""Runs of consecutive batches with the same leader epoch and timestamp type: last offset and both of each run."""


class ColumnChunk:
    """Chunk that is unpacked page by page. The chunks of one consumer share `pages`."""

    def __init__(
        self,
        partition: TopicPartition,
        data: Buffer,
        aborted: Sequence[AbortedTransaction],
        *,
        check_crc: bool,
        pages: BufferPool,
    ) -> None:
        batches = index_batches(data, partition)
        self.size = len(data)
        self.next_offset = batches[-1][LAST_OFFSET] + 1 if batches else None
        self._partition = partition
        self._data = data
        self._batches = batches
        self._aborted = [(transaction.producer_id, transaction.first_offset) for transaction in aborted]
        self._decoder = Decoder(SCHEMA, read_committed=bool(aborted), check_crc=check_crc, pages=pages)
        self._runs = _runs(batches)
        self.last_epoch = self._runs[-1][1] if batches else None
        self._unpacking: Iterator[pa.RecordBatch] | None = None
        self._problem: BatchError | None = None

    def unpack(self, position: int) -> ColumnRecords | None:
        if self._unpacking is None:
            fed = self._decoder.feed(
                self._data, self._batches, self._partition, first=position, until=_UNTIL, aborted=self._aborted
            )
            self._unpacking = chain(fed, self._decoder.finish())
        try:
            page = next(self._unpacking, None)
        except BatchError as problem:
            # Hand out the records before the damaged batch first.
            self._problem = problem
            self._unpacking = self._decoder.finish()
            page = next(self._unpacking, None)
        if page is None and self._problem is not None:
            raise self._problem
        return None if page is None else ColumnRecords(self._partition, page, self._runs)

    def unpack_values(self, position: int) -> ColumnRecords | None:
        return self.unpack(position)


class ColumnRecords:
    """One page of records."""

    __slots__ = (
        "_at",
        "_batch",
        "_headers",
        "_keys",
        "_made",
        "_offsets",
        "_partition",
        "_runs",
        "_times",
        "next_offset",
    )

    def __init__(self, partition: TopicPartition, batch: pa.RecordBatch, runs: _Runs) -> None:
        self._partition = partition
        self._batch = batch
        self._runs = runs
        self._at = 0
        self._offsets: Any = batch.column(_OFFSET).to_numpy()
        self._times: Any = batch.column(_TIMESTAMP).view(pa.int64()).to_numpy() // 1000
        keys, headers = batch.column(_KEY), batch.column(_HEADERS)
        self._keys = None if keys.null_count == len(keys) else keys
        self._headers = None if headers.null_count == len(headers) else headers
        self._made: Iterator[ConsumerRecord] = iter(())
        """Iterator over the next records, created lazily; empty until their fields are decoded."""
        self.next_offset = int(self._offsets[0])

    @property
    def left(self) -> int:
        return self._batch.num_rows - self._at

    @property
    def leader_epoch(self) -> int | None:
        return next(epoch for last, epoch, _ in self._runs if last >= self.next_offset - 1)

    def records(self, most: int) -> list[ConsumerRecord]:
        some = list(islice(self._made, most))
        while len(some) < most and self.left > len(some):
            start, wanted = self._at + len(some), most - len(some)
            if wanted >= _MADE_AT_ONCE:
                some += self._make(start, wanted)
            else:
                self._made = self._make(start, _MADE_AT_ONCE)
                some += islice(self._made, wanted)
        self._at += len(some)
        self.next_offset = some[-1].offset + 1
        return some

    def _make(self, start: int, count: int) -> Iterator[ConsumerRecord]:
        """Return an iterator over up to `count` records from row `start`.

        Fields are decoded in bulk. Records are created one by one, because the garbage collector
        traverses them.
        """
        end = min(start + count, self._batch.num_rows)
        topic, partition = self._partition
        keys = repeat(None) if self._keys is None else _blobs(self._keys, start, end)
        values = _blobs(self._batch.column(_VALUE), start, end)
        headers: Iterable[Sequence[Header]] = repeat(())
        if self._headers is not None:
            headers = map(_headers_of, self._headers[start:end].to_pylist())
        offsets, times = self._offsets[start:end].tolist(), self._times[start:end].tolist()
        epochs, kinds = self._by_row(offsets)
        rows = zip(repeat(topic), repeat(partition), offsets, times, keys, values, headers, kinds, epochs)
        return map(tuple.__new__, repeat(ConsumerRecord), rows)

    def _by_row(self, offsets: list[int]) -> tuple[Iterable[int | None], Iterable[TimestampType]]:
        """Return the leader epoch and the timestamp type of each offset."""
        last = next(number for number, run in enumerate(self._runs) if run[0] >= offsets[-1])
        first = next(number for number, run in enumerate(self._runs) if run[0] >= offsets[0])
        if first == last:
            return repeat(self._runs[first][1]), repeat(self._runs[first][2])
        ends = [run[0] for run in self._runs]
        found = [self._runs[bisect_left(ends, offset)] for offset in offsets]
        return [run[1] for run in found], [run[2] for run in found]

    def values(self, most: int) -> list[bytes | None]:
        batch = self.columns(most)
        return _blobs(batch.column(_VALUE), 0, batch.num_rows)

    def columns(self, most: int) -> pa.RecordBatch:
        start, self._at = self._at, min(self._at + most, self._batch.num_rows)
        self._made = iter(())
        self.next_offset = int(self._offsets[self._at - 1]) + 1
        return self._batch if self._at - start == self._batch.num_rows else self._batch.slice(start, self._at - start)


def _blobs(column: pa.Array[Any], start: int, end: int) -> list[bytes | None]:
    """Return the column's values as a list of bytes objects.

    Arrow creates the objects in C. Slicing bytes for each value would cost more than the rest of
    the record.
    """
    found: list[bytes | None] = column[start:end].to_numpy(zero_copy_only=False).tolist()
    return found


def _headers_of(entry: list[dict[str, Any]] | None) -> Sequence[Header]:
    return () if entry is None else [(item["key"], item["value"]) for item in entry]


def _runs(batches: Batches) -> _Runs:
    runs: _Runs = []
    for batch in batches:
        epoch = batch[LEADER_EPOCH]
        known = None if epoch < 0 else epoch
        kind = TimestampType(has_log_append_time(batch))
        if runs and runs[-1][1:] == (known, kind):
            runs.pop()
        runs.append((batch[LAST_OFFSET], known, kind))
    return runs
