"""Decode record batches v2 to Arrow batches.

Decoding verifies checksums, decompresses, skips records that applications must not see, and copies
columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from kohort.columns import kernels
from kohort.columns.page import MAX_ROWS, PAGE_BYTES, BufferPool, ColumnBuffers
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.batches import BatchError, Codec, decompress

_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_CRC_FROM = 21
_CREATE_TIME_TYPE, _LOG_APPEND_TIME_TYPE = 0, 1  # the numbers of Java's TimestampType

Batches = list[list[int]]
"""Complete batches of a buffer, in order. `kernels` defines the columns."""


def index_batches(buffer: bytes | bytearray | memoryview, tp: TopicPartition) -> Batches:
    """Return the complete batches in `buffer`; a last batch that the fetch truncated is omitted. Raises BatchError."""
    source = np.frombuffer(buffer, np.uint8)
    parts: Batches = []
    start = 0
    while True:
        table = np.empty((1024, kernels.BATCH_COLUMNS), np.int64)
        n = kernels.find_batches(source, start, table)
        parts += table[: n if n >= 0 else -1 - n].tolist()
        if n < 0:
            behind = f"behind offset {parts[-1][kernels.LAST_OFFSET]}" if parts else "at the beginning"
            detail = f"{tp}: what was fetched has no record batch of format 2 {behind}"
            raise BatchError(ErrorCode.CORRUPT_MESSAGE, detail)
        if n < len(table):
            return parts
        start = parts[-1][kernels.END]


def has_log_append_time(batch: list[int]) -> bool:
    """Return whether the broker set the batch's timestamps."""
    return bool(batch[kernels.ATTRIBUTES] & _LOG_APPEND_TIME)


class Decoder:
    """Appends partitions' records to pages and yields each full page; `finish` yields the last one.

    A yielded batch stays valid while it is referenced: its page is reused only when no reference is
    left.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        read_committed: bool = False,
        check_crc: bool = True,
        max_rows: int = MAX_ROWS,
        pages: BufferPool | None = None,
    ) -> None:
        assert max_rows <= MAX_ROWS
        self._schema = schema
        self._with_keys = "key" in schema.names
        self._with_values = "value" in schema.names
        at = schema.get_field_index("headers")
        self._header_type: Any = schema.field(at).type.value_type if at >= 0 else None
        self._read_committed = read_committed
        self._check_crc = check_crc
        self._max_rows = max_rows
        self._pages = BufferPool() if pages is None else pages
        self._current: ColumnBuffers | None = None

    def feed(
        self,
        buffer: bytes | bytearray | memoryview,
        batches: Batches,
        tp: TopicPartition,
        *,
        first: int,
        until: int,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> Iterator[pa.RecordBatch]:
        """Decode records with `first` <= offset < `until`.

        `aborted` lists the fetch's aborted transactions as (producer ID, first offset). Raises
        BatchError.
        """
        source = np.frombuffer(buffer, np.uint8)
        hidden = _AbortedTransactions(aborted)
        for batch in batches:
            if batch[kernels.LAST_OFFSET] < first:
                continue
            if batch[kernels.BASE_OFFSET] >= until:
                break
            attributes = batch[kernels.ATTRIBUTES]
            if self._read_committed and attributes & _TRANSACTIONAL and hidden.covers(batch):
                continue
            if attributes & _CONTROL:
                continue
            records = _records(buffer, source, batch, tp, check_crc=self._check_crc)
            yield from self._decode(records, batch, tp, first, until)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows, if any; after an error, the rows before it."""
        if self._current is not None and self._current.rows:
            yield self._finished(self._current)

    def _decode(
        self, records: Any, batch: list[int], tp: TopicPartition, first: int, until: int
    ) -> Iterator[pa.RecordBatch]:
        appended = has_log_append_time(batch)
        append_time = batch[kernels.MAX_TIME] if appended else -1
        page = self._page()
        page.cursor[kernels.POSITION] = 0
        page.cursor[kernels.LEFT] = batch[kernels.COUNT]
        while True:
            before = page.rows
            status = kernels.decode_records(
                records,
                page.cursor,
                batch[kernels.BASE_OFFSET],
                batch[kernels.BASE_TIME],
                append_time,
                first,
                until,
                self._with_keys,
                self._with_values,
                page.offsets,
                page.times,
                page.header_at,
                page.key_ends,
                page.key_bytes,
                page.key_valid,
                page.value_ends,
                page.value_bytes,
                page.value_valid,
            )
            if status == kernels.MALFORMED:
                page.cut(before)
                raise _malformed(batch, tp, f"record {batch[kernels.COUNT] - int(page.cursor[kernels.LEFT])}")
            rows = page.rows
            if rows > before:
                if self._header_type and not page.extend_headers(records, before, rows, self._header_type):
                    page.cut(before)
                    raise _malformed(batch, tp, "a record's headers")
                page.extend(tp, before, rows, _LOG_APPEND_TIME_TYPE if appended else _CREATE_TIME_TYPE)
            if status == kernels.DONE:
                return
            position, left = page.cursor[kernels.POSITION], page.cursor[kernels.LEFT]
            if rows:
                yield self._finished(page)
                page = self._page()
            else:  # one record is larger than a page
                page = self._current = ColumnBuffers(self._max_rows, max(len(records), 2 * page.size))
            page.cursor[kernels.POSITION], page.cursor[kernels.LEFT] = position, left

    def _page(self) -> ColumnBuffers:
        if self._current is None:
            self._current = self._pages.take(self._max_rows, PAGE_BYTES)
        return self._current

    def _finished(self, page: ColumnBuffers) -> pa.RecordBatch:
        """Return the filled page as a batch; the following rows go to an unreferenced page."""
        self._current = None
        filled = page.finish(self._schema)
        self._pages.give(page)
        return filled


class _AbortedTransactions:
    """Batches of a fetch that belong to aborted transactions: from the first offset to the abort marker."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._waiting = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._open: set[int] = set()

    def covers(self, batch: Sequence[int]) -> bool:
        while self._waiting and self._waiting[-1][0] <= batch[kernels.LAST_OFFSET]:
            self._open.add(self._waiting.pop()[1])
        producer = batch[kernels.PRODUCER_ID]
        if batch[kernels.ATTRIBUTES] & _CONTROL:
            self._open.discard(producer)
            return True
        return producer in self._open


def _records(
    buffer: bytes | bytearray | memoryview, source: Any, batch: list[int], tp: TopicPartition, *, check_crc: bool
) -> Any:
    """Verify the checksum and return the batch's uncompressed records."""
    start, end = batch[kernels.AT], batch[kernels.END]
    view = memoryview(buffer)
    if check_crc and crc32c(view[start + _CRC_FROM : end]) != batch[kernels.CRC]:
        raise _malformed(batch, tp, "its checksum")
    number = batch[kernels.ATTRIBUTES] & _CODEC
    if not number:
        return source[start + kernels.HEADER_SIZE : end]
    if number not in _CODECS:
        raise BatchError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"{tp}, offset {batch[kernels.BASE_OFFSET]}: codec {number}"
        )
    try:
        packed = bytes(view[start + kernels.HEADER_SIZE : end])
        return np.frombuffer(decompress(_CODECS[number], packed), np.uint8)
    except BatchError as error:
        raise BatchError(error.code, f"{tp}, offset {batch[kernels.BASE_OFFSET]}: {error}") from error


_CODECS: Mapping[int, Codec] = {codec.value: codec for codec in Codec}


def _malformed(batch: Sequence[int], tp: TopicPartition, what: str) -> BatchError:
    first, last = batch[kernels.BASE_OFFSET], batch[kernels.LAST_OFFSET]
    return BatchError(ErrorCode.CORRUPT_MESSAGE, f"{tp}, batch with offsets {first} to {last}: {what} is wrong")
