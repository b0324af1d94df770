"""Encode Arrow columns as records of batches v2, for one partition at a time. `pack_batch` adds the header."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kohort.columns import encode_kernels
from kohort.wire.batches import pack_headers

_NO_BYTES = np.zeros(0, np.uint8)
_NO_HEADERS = b"\0"
_SMALLEST = 16 << 10
_PER_RECORD = 32
"""Upper limit of a record's size without its key, value and headers: varints and attributes."""


class Column(NamedTuple):
    """One column of bytes: the end of each row, the bytes, and which rows are not null."""

    ends: Any
    data: Any
    valid: Any


class Columns(NamedTuple):
    """Columns of the records to encode; all have the same number of rows."""

    key: Column
    value: Column
    headers: Column

    def room(self, row: int) -> int:
        """Return the maximum size of the record of that row, in bytes."""
        return _PER_RECORD + sum(int(column.ends[row + 1]) - int(column.ends[row]) for column in self)


def columns_of(key: pa.Array[Any] | None, value: pa.Array[Any], headers: pa.Array[Any] | None) -> Columns:
    """Return the columns of binary or string keys and values, with nulls, and of lists of (key, value) headers."""
    rows = len(value)
    return Columns(_column(key, rows), _column(value, rows), _header_column(headers, rows))


def place_keys(key: Column, count: int, partitions: Any) -> None:
    """Set in `partitions` (int32, by row) the partition of each row that has a key, among `count` partitions."""
    encode_kernels.place_keys(key.ends, key.data, key.valid, count, partitions)


class PartitionEncoder:
    """Collects the records of one partition, and returns a batch whenever they fill `limit` bytes."""

    __slots__ = ("_at", "_out", "count", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        """Number of records in the unfinished batch."""
        self._out = np.empty(min(_SMALLEST, limit), np.uint8)
        self._at = 0

    @property
    def memory(self) -> int:
        """Size of the buffer in bytes."""
        return len(self._out)

    def add(self, columns: Columns, rows: Any) -> Iterator[tuple[int, memoryview]]:
        """Add these rows (int64, ascending) in order; yield (count, records) of every batch that is full."""
        first = 0
        while True:
            taken, self._at = _encode(columns, rows[first:], self._out, self._at, self.count)
            self.count += taken
            first += taken
            if first == len(rows):
                return
            if len(self._out) < self.limit:
                self._grow(min(self.limit, 2 * len(self._out)))
            elif self.count:
                yield self.take()
            else:
                # A record larger than the limit gets a batch of its own; the broker decides whether
                # to accept it.
                out = np.empty(columns.room(int(rows[first])), np.uint8)
                _, end = _encode(columns, rows[first : first + 1], out, 0, 0)
                yield 1, out[:end].data
                first += 1

    def take(self) -> tuple[int, memoryview]:
        """Return the collected records as (count, records), and start a new batch in another buffer."""
        taken = self.count, self._out[: self._at].data
        self._out = np.empty(len(self._out), np.uint8)
        self.count = self._at = 0
        return taken

    def _grow(self, size: int) -> None:
        out = np.empty(size, np.uint8)
        out[: self._at] = self._out[: self._at]
        self._out = out


def _encode(columns: Columns, rows: Any, out: Any, at: int, count: int) -> tuple[int, int]:
    """Write rows to `out` from `at`, after `count` earlier records; return how many fit, and their end."""
    taken: tuple[int, int] = encode_kernels.encode_records(
        rows, *columns.key, *columns.value, *columns.headers[:2], out, at, count
    )
    return taken


def _column(array: pa.Array[Any] | None, rows: int) -> Column:
    if array is None:
        return Column(np.zeros(rows + 1, np.int32), _NO_BYTES, np.zeros(rows, np.uint8))
    assert len(array) == rows
    if pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type):
        array = array.cast(pa.binary())
    _, ends, data = array.buffers()
    if ends is None or data is None:
        return Column(np.zeros(rows + 1, np.int32), _NO_BYTES, _valid(array))
    all_ends = np.frombuffer(ends, np.int32)  # type: ignore[call-overload]  # pyarrow's buffers are buffers
    return Column(all_ends[array.offset : array.offset + rows + 1], np.frombuffer(data, np.uint8), _valid(array))  # type: ignore[call-overload]


def _valid(array: pa.Array[Any]) -> Any:
    if not array.null_count:
        return np.ones(len(array), np.uint8)
    return array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)


def _header_column(headers: pa.Array[Any] | None, rows: int) -> Column:
    """Encode headers row by row: they are rare and small."""
    if headers is None or headers.null_count == rows:
        return Column(np.arange(rows + 1, dtype=np.int32), np.zeros(rows, np.uint8), np.ones(rows, np.uint8))
    packed = [
        pack_headers([(header["key"], header["value"]) for header in some]) if some else _NO_HEADERS
        for some in headers.to_pylist()
    ]
    ends = np.zeros(rows + 1, np.int32)
    np.cumsum([len(packed_headers) for packed_headers in packed], out=ends[1:])
    return Column(ends, np.frombuffer(b"".join(packed), np.uint8), np.ones(rows, np.uint8))
