"""Record batches v2 to Arrow batches: checksum, decompress, leave out what no application sees, copy columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from kohort.columns import kernels
from kohort.columns.page import MAX_ROWS, PAGE_BYTES, Page, PagePool
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.compression import BatchError, Codec, decompress

_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_CRC_FROM = 21
_CREATE_TIME_TYPE, _LOG_APPEND_TIME_TYPE = 0, 1  # as Java's TimestampType numbers them

Batches = list[list[int]]
"""Whole batches of a buffer, in order; the columns are those that `kernels` names."""


def index_batches(buffer: bytes | bytearray | memoryview, tp: TopicPartition) -> Batches:
    """The whole batches in `buffer`; a last one that the fetch cut off is left out. Raises BatchError."""
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


class Decoder:
    """Appends partitions' records to pages and yields a page when it is full; `finish` yields the last one.

    A yielded batch is valid as long as someone holds it: its page is filled again only when nobody does.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        read_committed: bool = False,
        check_crc: bool = True,
        max_rows: int = MAX_ROWS,
        pages: PagePool | None = None,
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
        self._pages = PagePool() if pages is None else pages
        self._current: Page | None = None

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
        """Decode `first` <= offset < `until`; `aborted` is the fetch's (producer id, first offset) of transactions."""
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
        """The rows that no full page took with it; none where there are none. After an error: those before it."""
        if self._current is not None and self._current.rows:
            yield self._finished(self._current)

    def _decode(
        self, records: Any, batch: list[int], tp: TopicPartition, first: int, until: int
    ) -> Iterator[pa.RecordBatch]:
        appended = bool(batch[kernels.ATTRIBUTES] & _LOG_APPEND_TIME)
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
                page = self._current = Page(self._max_rows, max(len(records), 2 * page.size))
            page.cursor[kernels.POSITION], page.cursor[kernels.LEFT] = position, left

    def _page(self) -> Page:
        if self._current is None:
            self._current = self._pages.take(self._max_rows, PAGE_BYTES)
        return self._current

    def _finished(self, page: Page) -> pa.RecordBatch:
        """Hand out the filled page; the next rows go to one that nobody looks at."""
        self._current = None
        filled = page.finish(self._schema)
        self._pages.give(page)
        return filled


class _AbortedTransactions:
    """Which batches of a fetch belong to transactions that were aborted: from its first offset to the abort marker."""

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
    """The batch's records, uncompressed, after its checksum held."""
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
