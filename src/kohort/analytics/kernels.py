"""Compiled loops over records of `__consumer_offsets`: decoding and aggregation of commits.

Nearly all records of the topic are commits, so they are decoded at about ten nanoseconds each, by
the positions of the fields. Of other records only the type is read. The lengths in the bytes may be
wrong, so every position is checked.
"""

import numpy as np

from kohort.columns import big_endian  # settles numba's cache, and must stay before numba's own import

from numba import int32, int64, njit, types, uint8  # isort: skip

COMMIT, MALFORMED = 1, -1
"""Commits of both formats count as type 1; other types are unchanged."""

_bytes_in = types.Array(uint8, 1, "C", readonly=True)
_ends_in = types.Array(int32, 1, "C", readonly=True)
_three_numbers = types.UniTuple(int64, 3)  # type: ignore[no-untyped-call]


@njit(int64(_bytes_in, int64, int64), cache=True, nogil=True, inline="always")
def _int16(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return a length or a version, or -2 (invalid as either) if the bytes end before it."""
    if at + 2 > end:
        return np.int64(-2)
    value = big_endian(data, at, np.int64(2))
    return value - 65536 if value > 32767 else value


@njit(_three_numbers(_bytes_in, int64, int64), cache=True, nogil=True, inline="always")
def _varint(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return 1, the value and the end of an unsigned varint; 0 first if it is truncated or longer than five bytes."""
    value = np.int64(0)
    for i in range(5):
        if at + i >= end:
            break
        byte = np.int64(data[at + i])
        value |= (byte & 127) << (7 * i)
        if byte < 128:
            return np.int64(1), value, np.int64(at + i + 1)
    return np.int64(0), np.int64(0), np.int64(end)


@njit(int64(_bytes_in, int64, int64), cache=True, nogil=True)
def _commit_key(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return whether exactly the four bytes of a partition follow group and topic."""
    for _ in range(2):
        size = _int16(data, at, end)
        if size < 0:
            return np.int64(0)
        at += 2 + size
    return np.int64(1) if at + 4 == end else np.int64(0)


@njit(int64(_bytes_in, int64, int64), cache=True, nogil=True)
def _tagged_topic_id(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the position of the topic id of a flexible value (tag 0, 16 bytes); -1 without one, -2 if malformed."""
    ok, fields, at = _varint(data, at, end)
    found = np.int64(-1)
    for _ in range(fields):
        ok_tag, tag, at = _varint(data, at, end)
        ok_size, size, at = _varint(data, at, end)
        ok = ok and ok_tag and ok_size
        if not ok or at + size > end:
            return np.int64(-2)
        if tag == 0 and size == 16:
            found = np.int64(at)
        at += size
    return found if ok else np.int64(-2)


@njit(_three_numbers(_bytes_in, int64, int64), cache=True, nogil=True)
def _time_place(value, begin, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return version, position of the time, and position of the topic id of a commit's value.

    The version is -1 if the value is malformed, and the last position is -1 if there is no topic
    id.
    """
    version = _int16(value, begin, end)
    at = begin + 10 + (4 if version >= 3 else 0)
    topic_id = np.int64(-1)
    if version < 0 or version > 4 or at > end:
        return np.int64(-1), np.int64(0), topic_id
    if version == 4:
        ok, size, at = _varint(value, at, end)
        at += size - 1
        if not ok or size < 1 or at + 8 > end:
            return np.int64(-1), np.int64(0), topic_id
        topic_id = _tagged_topic_id(value, at + 8, end)
    else:
        size = _int16(value, at, end)
        at += 2 + size
        if size < 0 or at + 8 > end:
            return np.int64(-1), np.int64(0), topic_id
    if topic_id == -2:
        return np.int64(-1), np.int64(0), topic_id
    return version, np.int64(at), topic_id


@njit(
    types.void(
        *(_ends_in, _bytes_in, _ends_in, _bytes_in, uint8[::1]),
        *(int32[::1], int32[::1], int64[::1], int64[::1], int64[::1], int64[::1]),
    ),
    cache=True,
    nogil=True,
)
def decode_commits(  # type: ignore[no-untyped-def]  # noqa: ANN201
    key_ends,  # noqa: ANN001
    key_bytes,  # noqa: ANN001
    value_ends,  # noqa: ANN001
    value_bytes,  # noqa: ANN001
    value_valid,  # noqa: ANN001
    kinds,  # noqa: ANN001  out: the record's type; the columns below are set for commits only
    partitions,  # noqa: ANN001  out
    positions,  # noqa: ANN001  out: the committed offset; -1 if deleted
    times,  # noqa: ANN001  out: milliseconds; -1 if deleted
    topic_ids,  # noqa: ANN001  out: position of the topic id in `value_bytes`; -1 if there is none
    id_ends,  # noqa: ANN001  out: last eight bytes of the topic id, to compare ids; 0 if there is none
):
    """Decode every row."""
    for row in range(len(kinds)):
        at, end = np.int64(key_ends[row]), np.int64(key_ends[row + 1])
        kind = _int16(key_bytes, at, end)
        if kind != 0 and kind != 1:
            kinds[row] = kind if kind > 0 else MALFORMED
            continue
        kinds[row] = MALFORMED
        if not _commit_key(key_bytes, at + 2, end):
            continue
        partitions[row] = big_endian(key_bytes, end - 4, np.int64(4))
        positions[row] = times[row] = topic_ids[row] = -1
        id_ends[row] = 0
        if value_valid[row]:
            begin = np.int64(value_ends[row])
            version, time_at, topic_id = _time_place(value_bytes, begin, np.int64(value_ends[row + 1]))
            if version < 0:
                continue
            positions[row] = big_endian(value_bytes, begin + 2, np.int64(8))
            times[row] = big_endian(value_bytes, time_at, np.int64(8))
            topic_ids[row] = topic_id
            if topic_id >= 0:
                id_ends[row] = big_endian(value_bytes, topic_id + 8, np.int64(8))
        kinds[row] = COMMIT


@njit(
    types.void(int64[::1], int64[::1], *(int64[::1],) * 5),
    cache=True,
    nogil=True,
)
def sum_up(  # type: ignore[no-untyped-def]  # noqa: ANN201
    runs,  # noqa: ANN001  run of each row, counted from 0
    at,  # noqa: ANN001  time of each row
    firsts,  # noqa: ANN001  out: first row of each run
    lasts,  # noqa: ANN001  out: last row of each run
    counts,  # noqa: ANN001  in: zeros; out: number of rows of each run
    earliest,  # noqa: ANN001  out: minimum time of each run, which need not be that of its first row
    latest,  # noqa: ANN001  out: maximum time of each run
):
    """Aggregate rows in the order of the log; the rows of different runs may be interleaved."""
    for row in range(len(runs)):
        run, time = runs[row], at[row]
        if counts[run] == 0:
            firsts[run] = row
            earliest[run] = latest[run] = time
        elif time < earliest[run]:
            earliest[run] = time
        elif time > latest[run]:
            latest[run] = time
        lasts[run] = row
        counts[run] += 1
