"""Buffers of one Arrow batch, which the kernels fill, and their reuse once Arrow does not reference them any more."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from kohort.columns import kernels
from kohort.model import TopicPartition

MAX_ROWS = 16384
_MOST_LENT = 4
PAGE_BYTES = 2 << 20
"""Maximum size of the keys, and of the values, in bytes.

It limits the size of an Arrow batch of large records. A larger record gets a page of its own.
"""


class ColumnBuffers:
    """Columns in the process of being filled; `finish` passes them to Arrow without a copy."""

    def __init__(self, rows: int = MAX_ROWS, size: int = PAGE_BYTES) -> None:
        self.cursor = np.zeros(kernels.CURSOR_CELLS, np.int64)
        self.offsets = np.empty(rows, np.int64)
        self.times = np.empty(rows, np.int64)
        self.header_at = np.empty(rows, np.int64)
        self.partitions = np.empty(rows, np.int32)
        self.time_types = np.empty(rows, np.int32)
        self.header_counts = np.empty(rows, np.int32)
        self.key_ends = np.zeros(rows + 1, np.int32)
        self.key_bytes = np.empty(size, np.uint8)
        self.key_valid = np.empty(rows, np.uint8)
        self.value_ends = np.zeros(rows + 1, np.int32)
        self.value_bytes = np.empty(size, np.uint8)
        self.value_valid = np.empty(rows, np.uint8)
        self._topics: list[tuple[str, int]] = []
        self._headers: list[pa.StructArray] = []
        self._lent: list[Any] = [self.offsets, self.times, self.partitions, self.time_types]
        self._lent += [self.key_ends, self.key_bytes, self.value_ends, self.value_bytes]
        self._unshared = self._references()

    @property
    def rows(self) -> int:
        return int(self.cursor[kernels.ROW])

    @property
    def size(self) -> int:
        """Capacity for keys, and for values, in bytes."""
        return len(self.value_bytes)

    def is_free(self) -> bool:
        """Whether no Arrow buffer references the page: each Arrow buffer holds a reference to its array."""
        return self._references() == self._unshared

    def clear(self) -> None:
        self.cursor[:] = 0
        self._topics.clear()
        self._headers.clear()

    def cut(self, rows: int) -> None:
        """Discard the rows from `rows` on, which belong to a malformed batch."""
        cursor = self.cursor
        cursor[kernels.ROW] = rows
        cursor[kernels.KEY_BYTES], cursor[kernels.VALUE_BYTES] = self.key_ends[rows], self.value_ends[rows]
        cursor[kernels.NULL_KEYS] = rows - np.count_nonzero(self.key_valid[:rows])
        cursor[kernels.NULL_VALUES] = rows - np.count_nonzero(self.value_valid[:rows])
        cursor[kernels.HEADED] = 0

    def extend(self, tp: TopicPartition, first_row: int, last_row: int, time_type: int) -> None:
        """Set the partition of the rows that a kernel has just written."""
        self.partitions[first_row:last_row] = tp.partition
        self.time_types[first_row:last_row] = time_type
        if self._topics and self._topics[-1][0] == tp.topic:
            first_row -= self._topics.pop()[1]
        self._topics.append((tp.topic, last_row - first_row))

    def extend_headers(self, source: Any, first_row: int, last_row: int, header_type: pa.StructType) -> bool:
        """Read the headers of the rows just written from the same source; return False if they are malformed."""
        if not self.cursor[kernels.HEADED]:
            self.header_counts[first_row:last_row] = 0
            return True
        self.cursor[kernels.HEADED] = 0
        spans = np.empty((1024, 4), np.int64)
        args = (source, self.header_at, first_row, last_row, self.header_counts)
        n = kernels.find_headers(*args, spans)
        if n > len(spans):
            spans = np.empty((n, 4), np.int64)
            n = kernels.find_headers(*args, spans)
        keys = _gathered(source, spans[:n], 0, header_type.field(0).type)
        try:
            keys.validate(full=True)
        except pa.ArrowInvalid:  # a key is not UTF-8: Arrow would raise an error only at the first read
            return False
        values = _gathered(source, spans[:n], 2, header_type.field(1).type)
        self._headers.append(pa.StructArray.from_arrays([keys, values], fields=[header_type.field(i) for i in (0, 1)]))
        return True

    def finish(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the filled rows as a batch of exactly that schema."""
        return pa.RecordBatch.from_arrays([self._column(field) for field in schema], schema=schema)

    def _column(self, field: pa.Field[Any]) -> pa.Array[Any]:
        rows = self.rows
        match field.name:
            case "key":
                nulls = int(self.cursor[kernels.NULL_KEYS])
                return _binary(field.type, rows, self.key_ends, self.key_bytes, self.key_valid, nulls)
            case "value":
                nulls = int(self.cursor[kernels.NULL_VALUES])
                return _binary(field.type, rows, self.value_ends, self.value_bytes, self.value_valid, nulls)
            case "topic":
                return _topic_column(self._topics, field.type)
            case "partition":
                return _fixed(field.type, self.partitions, rows)
            case "offset":
                return _fixed(field.type, self.offsets, rows)
            case "timestamp":
                return _fixed(field.type, self.times, rows)
            case "timestampType":
                return _fixed(field.type, self.time_types, rows)
            case "headers":
                return self._header_column(field.type, rows)
        raise AssertionError(f"the options let the unknown column {field.name} pass")

    def _header_column(self, kind: pa.ListType[Any], rows: int) -> pa.Array[Any]:
        """Return the column of headers. A record without headers has null, as in spark-sql-kafka."""
        if not self._headers:
            return pa.nulls(rows, kind)
        counts = self.header_counts[:rows]
        ends = np.zeros(rows + 1, np.int32)
        np.cumsum(counts, out=ends[1:])
        bitmap = _bitmap(counts > 0)
        entries = pa.concat_arrays(self._headers)
        return pa.Array.from_buffers(kind, rows, [bitmap, _buffer(ends)], -1, 0, [entries])

    def _references(self) -> list[int]:
        return [sys.getrefcount(array) for array in self._lent]


class BufferPool:
    """Filled pages, which are reused once they are unreferenced. Not thread-safe."""

    def __init__(self) -> None:
        self._lent: list[ColumnBuffers] = []

    def take(self, rows: int, size: int) -> ColumnBuffers:
        """Return an empty page with at least that many rows, and that many bytes for keys and for values."""
        for page in self._lent:
            if len(page.offsets) >= rows and page.size >= size and page.is_free():
                self._lent.remove(page)
                page.clear()
                return page
        return ColumnBuffers(rows, size)

    def give(self, page: ColumnBuffers) -> None:
        """Add a page that was passed to Arrow, for later reuse."""
        self._lent.append(page)
        del self._lent[:-_MOST_LENT]  # a caller that keeps its batches keeps their pages alive


def _buffer(array: Any) -> pa.Buffer:
    return pa.py_buffer(array)


def _bitmap(valid: Any) -> pa.Buffer:
    return _buffer(np.packbits(valid, bitorder="little"))


def _binary(kind: Any, rows: int, ends: Any, data: Any, valid: Any, nulls: int) -> pa.Array[Any]:
    bitmap = _bitmap(valid[:rows]) if nulls else None
    used = _buffer(data).slice(0, int(ends[rows]))
    return pa.Array.from_buffers(kind, rows, [bitmap, _buffer(ends), used], nulls)


def _fixed(kind: Any, data: Any, rows: int) -> pa.Array[Any]:
    return pa.Array.from_buffers(kind, rows, [None, _buffer(data)], 0)


def _gathered(source: Any, spans: Any, column: int, kind: Any) -> pa.Array[Any]:
    sizes = spans[:, column + 1]
    ends = np.zeros(len(spans) + 1, np.int32)
    np.cumsum(np.maximum(sizes, 0), out=ends[1:])
    data = np.empty(int(ends[-1]), np.uint8)
    kernels.gather(source, spans, column, len(spans), data)
    bitmap = _bitmap(sizes >= 0) if (sizes < 0).any() else None
    return pa.Array.from_buffers(kind, len(spans), [bitmap, _buffer(ends), _buffer(data)], -1)


def _topic_column(topics: Iterable[tuple[str, int]], kind: Any) -> pa.Array[Any]:
    parts = [_repeated(topic, kind)[:rows] for topic, rows in topics]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


@lru_cache(maxsize=64)
def _repeated(topic: str, kind: Any) -> pa.Array[Any]:
    """Return a column of MAX_ROWS copies of the topic name; batches use slices of it."""
    column: pa.Array[Any] = pa.repeat(pa.scalar(topic, kind), MAX_ROWS)
    return column
