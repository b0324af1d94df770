"""Compiled loops that encode Arrow columns as records of a batch v2, and assign partitions to keys.

`kernels` configures numba's cache directory, so it is imported first.
"""

import numpy as np
from numba import int32, int64, njit, types, uint8, uint32

from kohort.columns.kernels import _copy  # configures numba's cache, so it must be the first of our imports

_bytes_in = types.Array(uint8, 1, "C", readonly=True)
_ends_in = types.Array(int32, 1, "C", readonly=True)
_two_numbers = types.UniTuple(int64, 2)  # type: ignore[no-untyped-call]

_MIX = np.uint32(0x5BD1E995)
_SEED = np.uint32(0x9747B28C)


@njit(int64(int64), cache=True, nogil=True, inline="always")
def _varint_size(value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the size in bytes of a nonnegative number as a zigzag varint."""
    raw = np.uint64(value) << np.uint64(1)
    size = 1
    while raw > np.uint64(127):
        raw >>= np.uint64(7)
        size += 1
    return size


@njit(int64(uint8[::1], int64, int64), cache=True, nogil=True, inline="always")
def _put_varint(out, at, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write a nonnegative number as a zigzag varint; return the position after it."""
    raw = np.uint64(value) << np.uint64(1)
    while raw > np.uint64(127):
        out[at] = np.uint8(raw & np.uint64(127)) | np.uint8(128)
        raw >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(raw)
    return at + 1


@njit(
    _two_numbers(
        int64[::1],
        *(_ends_in, _bytes_in, uint8[::1], _ends_in, _bytes_in, uint8[::1], _ends_in, _bytes_in),
        *(uint8[::1], int64, int64),
    ),
    cache=True,
    nogil=True,
)
def encode_records(  # type: ignore[no-untyped-def]  # noqa: ANN201
    rows,  # noqa: ANN001  indexes into the columns, in output order
    key_ends,  # noqa: ANN001
    key_bytes,  # noqa: ANN001
    key_valid,  # noqa: ANN001
    value_ends,  # noqa: ANN001
    value_bytes,  # noqa: ANN001
    value_valid,  # noqa: ANN001
    header_ends,  # noqa: ANN001  headers as encoded in a record, with their count
    header_bytes,  # noqa: ANN001
    out,  # noqa: ANN001
    at,  # noqa: ANN001  start position in `out`
    delta,  # noqa: ANN001  the first record's offset delta
):
    """Append records until `rows` or `out` is exhausted; return their number and the end position in `out`.

    All records have time delta 0.
    """
    i = 0
    while i < len(rows):
        row = rows[i]
        key_size = np.int64(key_ends[row + 1] - key_ends[row]) if key_valid[row] else np.int64(-1)
        value_size = np.int64(value_ends[row + 1] - value_ends[row]) if value_valid[row] else np.int64(-1)
        header_size = np.int64(header_ends[row + 1] - header_ends[row])
        size = np.int64(2) + _varint_size(delta) + header_size
        size += _varint_size(key_size) + key_size if key_size >= 0 else 1
        size += _varint_size(value_size) + value_size if value_size >= 0 else 1
        if at + _varint_size(size) + size > len(out):
            break
        at = _put_varint(out, at, size)
        out[at] = 0  # attributes
        out[at + 1] = 0  # time delta
        at = _put_varint(out, at + 2, delta)
        if key_size < 0:
            out[at] = 1
            at += 1
        else:
            at = _put_varint(out, at, key_size)
            _copy(out, at, key_bytes, np.int64(key_ends[row]), key_size)
            at += key_size
        if value_size < 0:
            out[at] = 1
            at += 1
        else:
            at = _put_varint(out, at, value_size)
            _copy(out, at, value_bytes, np.int64(value_ends[row]), value_size)
            at += value_size
        _copy(out, at, header_bytes, np.int64(header_ends[row]), header_size)
        at += header_size
        delta += 1
        i += 1
    return np.int64(i), np.int64(at)


@njit(uint32(_bytes_in, int64, int64), cache=True, nogil=True, inline="always")
def _murmur2(data, at, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return Kafka's hash of a key, made nonnegative; `kohort.client.produce.partitioner` has it in Python."""
    h = _SEED ^ np.uint32(size)
    end = at + (size & ~3)
    while at < end:
        k = np.uint32(data[at]) | np.uint32(data[at + 1]) << np.uint32(8)
        k |= np.uint32(data[at + 2]) << np.uint32(16) | np.uint32(data[at + 3]) << np.uint32(24)
        k = np.uint32(k * _MIX)
        k ^= k >> np.uint32(24)
        h = np.uint32(h * _MIX) ^ np.uint32(k * _MIX)
        at += 4
    rest = size & 3
    if rest:
        k = np.uint32(0)
        for i in range(rest):
            k |= np.uint32(data[at + i]) << np.uint32(8 * i)
        h = np.uint32((h ^ k) * _MIX)
    h ^= h >> np.uint32(13)
    h = np.uint32(h * _MIX)
    h ^= h >> np.uint32(15)
    return h & np.uint32(0x7FFFFFFF)


@njit(types.void(_ends_in, _bytes_in, uint8[::1], int64, int32[::1]), cache=True, nogil=True)
def place_keys(key_ends, key_bytes, key_valid, count, partitions):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Set the partition of every row that has a key, as Java's producer does with `count` partitions."""
    for row in range(len(partitions)):
        if key_valid[row]:
            at = np.int64(key_ends[row])
            partitions[row] = np.int64(_murmur2(key_bytes, at, np.int64(key_ends[row + 1]) - at)) % count
