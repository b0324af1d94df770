"""Compiled loops over record batches v2: find batches in a fetched buffer, and copy records into Arrow buffers.

Compilation takes seconds, so the result is cached on disk. numba reads the cache directory from the
environment when it is imported, which is why this module sets it above the import. Every position
is checked against the buffer: even a batch with a valid checksum can contain wrong lengths.
"""

import os
import tempfile
from pathlib import Path
from typing import Any


def _cache_directory() -> str:
    """Return a directory of this user, or a temporary one if the home directory is read-only.

    Many executors have a read-only home directory.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kohort" / "numba"
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError:
        return str(Path(tempfile.gettempdir()) / f"kohort-numba-{os.getuid()}")
    return str(home) if os.access(home, os.W_OK) else str(Path(tempfile.gettempdir()) / f"kohort-numba-{os.getuid()}")


os.environ.setdefault("NUMBA_CACHE_DIR", _cache_directory())

import numpy as np  # noqa: E402
from numba import boolean, int32, int64, njit, types, uint8  # noqa: E402
from numba.core import cgutils  # noqa: E402
from numba.extending import intrinsic  # noqa: E402

from kohort.wire.batches import MOST_OFFSET_DELTA, MOST_TIME  # noqa: E402

# Columns of the table that `find_batches` fills, one row per batch.
AT, END, BASE_OFFSET, LAST_OFFSET, CRC, ATTRIBUTES, BASE_TIME, MAX_TIME, PRODUCER_ID, COUNT, LEADER_EPOCH = range(11)
BATCH_COLUMNS = 11

HEADER_SIZE = 61
"""Size of a v2 batch before its records, in bytes."""

# Cells of the cursor that `decode_records` advances.
POSITION, LEFT, ROW, KEY_BYTES, VALUE_BYTES, NULL_KEYS, NULL_VALUES, HEADED = range(8)
CURSOR_CELLS = 8

# Return values of `decode_records`.
DONE, FULL, MALFORMED = 0, 1, 2

_bytes_in = types.Array(uint8, 1, "C", readonly=True)
_bytes_out = uint8[::1]
_table = int64[:, ::1]
_two_numbers: Any = types.UniTuple(int64, 2)  # type: ignore[no-untyped-call]


@intrinsic
def _copy_bytes(typing_context, target, target_at, source, source_at, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Copy with memcpy: a loop over bytes, or a slice assignment, costs as much as the rest of a record."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        pointers = []
        for array, at, kind in ((args[0], args[1], signature.args[0]), (args[2], args[3], signature.args[2])):
            data = context.make_array(kind)(context, builder, array).data
            pointers.append(builder.gep(data, [at]))
        cgutils.raw_memcpy(builder, pointers[0], pointers[1], args[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(target, target_at, source, source_at, size), generate


_copy: Any = _copy_bytes  # numba passes its first argument, not the caller


@njit(int64(_bytes_in, int64, int64), cache=True, nogil=True, inline="always")
def big_endian(source, at, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    value = np.int64(0)
    for i in range(size):
        value = (value << 8) | np.int64(source[at + i])
    return value


@njit(int64(_bytes_in, int64, _table), cache=True, nogil=True)
def find_batches(source, start, table):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Fill `table` with the complete batches from `start`; return how many, or -1 - n if batch n is malformed.

    The last batch of a fetch may be truncated. It is omitted, as are batches that do not fit into
    the table.
    """
    size = len(source)
    at = start
    n = 0
    while n < len(table) and at + 16 < size:
        length = big_endian(source, at + 8, 4)
        if length < HEADER_SIZE - 12 or length >= 2**31 or source[at + 16] != 2:
            return -1 - n
        if at + 12 + length > size:
            break
        base_offset = big_endian(source, at, 8)
        row = table[n]
        row[AT] = at
        row[END] = at + 12 + length
        row[BASE_OFFSET] = base_offset
        row[CRC] = big_endian(source, at + 17, 4)
        row[ATTRIBUTES] = big_endian(source, at + 21, 2)
        row[LAST_OFFSET] = base_offset + big_endian(source, at + 23, 4)
        row[BASE_TIME] = big_endian(source, at + 27, 8)
        row[MAX_TIME] = big_endian(source, at + 35, 8)
        row[PRODUCER_ID] = big_endian(source, at + 43, 8)
        row[COUNT] = big_endian(source, at + 57, 4)
        epoch = big_endian(source, at + 12, 4)
        row[LEADER_EPOCH] = epoch if epoch < 2**31 else np.int64(-1)
        at += 12 + length
        n += 1
    return n


@njit(_two_numbers(_bytes_in, int64, int64), cache=True, nogil=True, inline="always")
def _varint(source, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the zigzag varint at `at` and the position after it, or -1 as the position if it passes `end`."""
    raw = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift < np.uint64(70):
        byte = source[at]
        at += 1
        raw |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@njit(int64(_bytes_in, int64, int64), cache=True, nogil=True)
def _headers_end(source, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the position after the headers whose count is at `at`, or -1 if they pass `end`."""
    count, at = _varint(source, at, end)
    if at < 0 or count < 0:
        return np.int64(-1)
    for _ in range(count):
        key_size, at = _varint(source, at, end)
        if at < 0 or key_size < 0 or key_size > end - at:
            return np.int64(-1)
        value_size, at = _varint(source, at + key_size, end)
        if at < 0 or value_size > end - at:
            return np.int64(-1)
        at += max(value_size, 0)
    return at


@njit(
    int64(
        *(_bytes_in, int64[::1], int64, int64, int64, int64, int64, boolean, boolean),
        *(int64[::1], int64[::1], int64[::1]),
        *(int32[::1], _bytes_out, _bytes_out, int32[::1], _bytes_out, _bytes_out),
    ),
    cache=True,
    nogil=True,
)
def decode_records(  # type: ignore[no-untyped-def]  # noqa: ANN201
    source,  # noqa: ANN001  the uncompressed records of one batch
    cursor,  # noqa: ANN001
    base_offset,  # noqa: ANN001
    base_time,  # noqa: ANN001
    append_time,  # noqa: ANN001  the batch's log append time in ms, or -1 if records have their own
    first,  # noqa: ANN001
    until,  # noqa: ANN001
    with_keys,  # noqa: ANN001
    with_values,  # noqa: ANN001
    offsets,  # noqa: ANN001
    times,  # noqa: ANN001  microseconds
    header_at,  # noqa: ANN001  start of each row's headers in `source`
    key_ends,  # noqa: ANN001
    key_bytes,  # noqa: ANN001
    key_valid,  # noqa: ANN001
    value_ends,  # noqa: ANN001
    value_bytes,  # noqa: ANN001
    value_valid,  # noqa: ANN001
):
    """Append the records with `first` <= offset < `until` to the columns.

    Returns DONE, FULL (call again with another page) or MALFORMED.
    """
    end = len(source)
    position = cursor[POSITION]
    left = cursor[LEFT]
    row = cursor[ROW]
    keys = cursor[KEY_BYTES]
    values = cursor[VALUE_BYTES]
    status = DONE
    while left > 0:
        if row == len(offsets):
            status = FULL
            break
        length, at = _varint(source, position, end)
        # Sizes are compared with the remaining bytes: added to a position, they could overflow and
        # pass the check.
        if at < 0 or length < 1 or length > end - at:
            status = MALFORMED
            break
        record_end = at + length
        time_delta, at = _varint(source, at + 1, record_end)
        if at < 0 or not (-MOST_TIME < base_time < MOST_TIME and -MOST_TIME < time_delta < MOST_TIME):
            status = MALFORMED
            break
        offset_delta, at = _varint(source, at, record_end)
        if at < 0 or offset_delta < 0 or offset_delta >= MOST_OFFSET_DELTA:
            status = MALFORMED
            break
        offset = base_offset + offset_delta
        if offset >= until:
            left = 0
            end = position
            break
        if offset < first:
            position = record_end
            left -= 1
            continue
        key_size, at = _varint(source, at, record_end)
        if at < 0 or key_size > record_end - at:
            status = MALFORMED
            break
        key_at = at
        at += max(key_size, 0)
        value_size, at = _varint(source, at, record_end)
        if at < 0 or value_size > record_end - at:
            status = MALFORMED
            break
        if with_keys:
            if key_size < 0:
                key_valid[row] = 0
                cursor[NULL_KEYS] += 1
            else:
                if keys + key_size > len(key_bytes):
                    status = FULL
                    break
                key_valid[row] = 1
                _copy(key_bytes, keys, source, key_at, key_size)
                keys += key_size
            key_ends[row + 1] = keys
        if with_values:
            if value_size < 0:
                value_valid[row] = 0
                cursor[NULL_VALUES] += 1
            else:
                if values + value_size > len(value_bytes):
                    status = FULL
                    if with_keys:  # the next call writes the row again
                        keys = np.int64(key_ends[row])
                        if key_size < 0:
                            cursor[NULL_KEYS] -= 1
                    break
                value_valid[row] = 1
                _copy(value_bytes, values, source, at, value_size)
                values += value_size
            value_ends[row + 1] = values
        offsets[row] = offset
        times[row] = (append_time if append_time >= 0 else base_time + time_delta) * 1000
        at += max(value_size, 0)
        header_at[row] = at
        # Most records have no headers, so the call is skipped for them.
        if at < record_end and source[at] != 0:
            cursor[HEADED] += 1
            at = _headers_end(source, at, record_end)
        else:
            at += 1
        if at != record_end:
            status = MALFORMED
            break
        row += 1
        position = record_end
        left -= 1
    if status == DONE and position != end:
        status = MALFORMED  # bytes follow the last record
    cursor[POSITION] = position
    cursor[LEFT] = left
    cursor[ROW] = row
    cursor[KEY_BYTES] = keys
    cursor[VALUE_BYTES] = values
    return status


@njit(
    int64(_bytes_in, int64[::1], int64, int64, int32[::1], int64[:, ::1]),
    cache=True,
    nogil=True,
)
def find_headers(source, header_at, first_row, last_row, counts, spans):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Count each row's headers, and write the positions of their keys and values: (key at, size, value at, size).

    A null value's size is negative. Returns the number of headers, even if `spans` is too small for
    all of them: call again with a larger one. `decode_records` has checked that each row's headers
    end at the end of the record.
    """
    end = len(source)
    n = 0
    for row in range(first_row, last_row):
        count, at = _varint(source, header_at[row], end)
        counts[row] = count
        for _ in range(count):
            key_size, key_at = _varint(source, at, end)
            value_size, at = _varint(source, key_at + key_size, end)
            if n < len(spans):
                spans[n, 0] = key_at
                spans[n, 1] = key_size
                spans[n, 2] = at
                spans[n, 3] = value_size
            at += max(value_size, 0)
            n += 1
    return n


@njit(int64(_bytes_in, int64[:, ::1], int64, int64, _bytes_out), cache=True, nogil=True)
def gather(source, spans, column, n, target):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Copy `n` spans one after the other into `target`, which must be large enough; return the bytes written."""
    written = np.int64(0)
    for i in range(n):
        at = spans[i, column]
        size = max(spans[i, column + 1], 0)
        _copy(target, written, source, at, size)
        written += size
    return written
