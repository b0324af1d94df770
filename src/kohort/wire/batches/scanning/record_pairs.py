"""Read only the keys and values of a record batch v2, in bulk, to load a table or for compaction.

Most records of `__consumer_offsets` form runs with different contents but equal sizes. A run is
recognized by its length bytes, checked column by column, and split by one `iter_unpack`. Other
records are read one at a time.
"""

from functools import lru_cache
from struct import Struct

from kohort.wire.batches.batch import BatchHeader
from kohort.wire.batches.compression import MAX_INFLATED_BYTES, Buffer
from kohort.wire.batches.record_reader import malformed, more, unpacked

Pair = tuple[bytes | None, bytes | None]

_SHORTEST_RUN = 4
_NULL = 1
"""Encoded length of null, which is -1."""


def decode_pairs(
    batch: Buffer, position: int = 0, *, check_crc: bool = True, max_bytes: int = MAX_INFLATED_BYTES
) -> tuple[BatchHeader, list[Pair]]:
    """Return the header of the batch at `position`, and its keys and values in order; raises BatchError.

    If no record was removed from the batch (`record_count == last_offset_delta + 1`), the offsets
    are consecutive.
    """
    header, data = unpacked(batch, position, check_crc=check_crc, max_bytes=max_bytes)
    pairs: list[Pair] = []
    at, count = 0, header.record_count
    try:
        while len(pairs) < count:
            run = _run(data, at, count - len(pairs))
            if run is not None:
                found, at = run
                pairs += found
            else:
                pair, at = _pair(data, at, header)
                pairs.append(pair)
    except IndexError:
        raise malformed(header, "a record passes the end of the batch") from None
    if at != len(data):
        raise malformed(header, f"{len(data) - at} bytes follow its last record")
    return header, pairs


def _run(data: bytes, at: int, most: int) -> tuple[list[Pair], int] | None:
    """Read the run of equally sized records at `at`; return it with its end, or None if it is too short."""
    length = data[at]
    stride = (length >> 1) + 1
    if most < _SHORTEST_RUN or length & 1 or length > 127:
        return None
    lengths = data[at : at + most * stride : stride]
    count = len(lengths) - len(lengths.lstrip(lengths[:1]))
    block = data[at : at + count * stride]
    if count < _SHORTEST_RUN or len(block) < count * stride:
        return None

    def alike(column: int) -> bool:
        """Return whether all records have the same byte in this column."""
        return not block[column::stride].lstrip(block[column : column + 1])

    # Length, attributes, timestamp delta and offset delta. The timestamp delta must have one byte,
    # the offset delta one or two.
    key_size_at = 4 if block[3] < 128 else 5
    key_size = block[key_size_at]
    value_size_at = key_size_at + 1 + (key_size >> 1)
    if not block[2::stride].isascii() or key_size & 1 or value_size_at >= stride:
        return None
    if key_size_at == 4 and not block[3::stride].isascii():
        return None
    if key_size_at == 5 and (min(block[3::stride]) < 128 or not block[4::stride].isascii()):
        return None
    value_size = block[value_size_at]
    held = 0 if value_size == _NULL else value_size >> 1
    if (value_size & 1 and value_size != _NULL) or value_size_at + held + 2 != stride or block[stride - 1]:
        return None  # the last byte is the number of headers
    if not (alike(key_size_at) and alike(value_size_at) and alike(stride - 1)):
        return None
    end = at + len(block)
    if value_size == _NULL:
        return [(key, None) for (key,) in _shape(key_size_at + 1, key_size >> 1, 0, 0, 2).iter_unpack(block)], end
    return list(_shape(key_size_at + 1, key_size >> 1, 1, held, 1).iter_unpack(block)), end


@lru_cache(maxsize=1024)
def _shape(before: int, key: int, between: int, value: int, after: int) -> Struct:
    return Struct(f"{before}x{key}s{between}x{value}s{after}x" if between else f"{before}x{key}s{after}x")


def _pair(data: bytes, at: int, header: BatchHeader) -> tuple[Pair, int]:
    """Return one record's key and value, and its end. Raises IndexError if it exceeds the data."""
    size = data[at]
    at += 1
    if size > 127:
        size, at = more(data, at, size)
    end = at + (size >> 1)
    if size & 1 or end > len(data):
        raise IndexError
    at += 1  # attributes
    if data[at] > 127:
        _, at = more(data, at + 1, data[at])
    else:
        at += 1
    if data[at] > 127:
        _, at = more(data, at + 1, data[at])
    else:
        at += 1
    key = value = None
    size = data[at]
    at += 1
    if size > 127:
        size, at = more(data, at, size)
    if not size & 1:
        start, at = at, at + (size >> 1)
        key = data[start:at]
    size = data[at]
    at += 1
    if size > 127:
        size, at = more(data, at, size)
    if not size & 1:
        start, at = at, at + (size >> 1)
        value = data[start:at]
    if at >= end or (at + 1 != end and not data[at]):
        raise malformed(header, "a record's fields do not fill its length")
    return (key, value), end
