"""Decode the records of a record batch v2. For speed in plain Python, varints are unrolled by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.batches.batch import HEADER_SIZE, MAGIC, BatchHeader, crc_matches, read_header
from kohort.wire.batches.compression import MAX_INFLATED_BYTES, BatchError, Buffer, decompress

Header = tuple[str, bytes | None]

_UINT64 = 2**64 - 1
MOST_TIME = 2**62
"""Bound for timestamps and timestamp deltas, in milliseconds.

No valid time is as far from 1970, but nanoseconds by mistake are. The sum of a batch's base
timestamp and a record's delta, both below this bound, fits into an int64.
"""
MOST_OFFSET_DELTA = 2**31


class Record(NamedTuple):
    """A record. A value of None is a tombstone."""

    offset: int
    timestamp: Millis
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


def decode_records(
    batch: Buffer, position: int = 0, *, check_crc: bool = True, max_bytes: int = MAX_INFLATED_BYTES
) -> list[Record]:
    """Return the records of the batch at `position`. Raises BatchError if the batch is invalid.

    Records of control batches are included: check `BatchHeader.is_control`.
    """
    header, data = unpacked(batch, position, check_crc=check_crc, max_bytes=max_bytes)
    try:
        records, end = _decode(data, header)
    except IndexError:
        raise malformed(header, "a record passes the end of the batch") from None
    except UnicodeDecodeError:
        raise malformed(header, "a header's key is not UTF-8") from None
    if end != len(data):
        raise malformed(header, f"{len(data) - end} bytes follow its last record")
    return records


def decode_values(
    batch: Buffer, position: int = 0, *, check_crc: bool = True, max_bytes: int = MAX_INFLATED_BYTES
) -> list[bytes | None] | None:
    """Return only the values of the batch at `position`, in half the time of `decode_records`.

    Return None if that function is needed: some record has headers or an unusual size, offsets are
    missing, or the batch is malformed. Raises BatchError for a wrong checksum.
    """
    header, data = unpacked(batch, position, check_crc=check_crc, max_bytes=max_bytes)
    if header.has_gaps:
        return None
    try:
        return _values(data, header.record_count)
    except IndexError:
        return None


def _values(data: bytes, count: int) -> list[bytes | None] | None:
    """Return the values of records without headers whose lengths have up to two bytes each, else None."""
    values: list[bytes | None] = []
    add = values.append
    at = 0
    for _ in range(count):
        size = data[at]
        at += 1
        if size > 127:
            high = data[at]
            at += 1
            if high > 127:
                return None
            size += (high - 1) << 7
        if size & 1:
            return None
        end = at + (size >> 1)
        at += 1  # attributes
        while data[at] > 127:
            at += 1
        at += 1  # the last byte of the timestamp
        while data[at] > 127:
            at += 1
        at += 1  # the last byte of the offset
        size = data[at]
        at += 1
        if size > 127:
            high = data[at]
            at += 1
            if high > 127:
                return None
            size += (high - 1) << 7
        if not size & 1:
            at += size >> 1

        size = data[at]
        at += 1
        if size > 127:
            high = data[at]
            at += 1
            if high > 127:
                return None
            size += (high - 1) << 7
        if size & 1:
            add(None)
        else:
            start, at = at, at + (size >> 1)
            add(data[start:at])
        if data[at] or at + 1 != end:
            return None  # headers, or malformed
        at = end
    return values if at == len(data) else None


def unpacked(
    batch: Buffer, position: int = 0, *, check_crc: bool = True, max_bytes: int = MAX_INFLATED_BYTES
) -> tuple[BatchHeader, bytes]:
    """Return the header of the batch at `position`, and its uncompressed records. Raises BatchError."""
    header = _whole_header(batch, position)
    if check_crc and not crc_matches(batch, header, position):
        detail = f"the checksum of the batch at offset {header.base_offset} is wrong"
        raise BatchError(ErrorCode.CORRUPT_MESSAGE, detail)
    data = bytes(memoryview(batch)[position + HEADER_SIZE : position + header.size])
    return header, decompress(header.codec, data, max_bytes)


def _whole_header(batch: Buffer, position: int) -> BatchHeader:
    if len(batch) - position < HEADER_SIZE:
        raise BatchError(ErrorCode.CORRUPT_MESSAGE, "the bytes are too few for a batch's header")
    header = read_header(batch, position)
    if header.magic != MAGIC or not HEADER_SIZE <= header.size <= len(batch) - position:
        raise BatchError(ErrorCode.CORRUPT_MESSAGE, "the bytes are not one whole record batch v2")
    if header.record_count < 0:
        raise malformed(header, f"it says that it holds {header.record_count} records")
    return header


def malformed(header: BatchHeader, what: str) -> BatchError:
    """Return the error for a batch whose records contradict its header."""
    return BatchError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is malformed: {what}")


def check_time(header: BatchHeader, time: Millis) -> None:
    """Raise BatchError for a time that could overflow in a sum and so break compaction or a reader's columns."""
    if not -MOST_TIME < time < MOST_TIME:
        raise malformed(header, f"{time} ms is not a valid timestamp")


def _decode(data: bytes, header: BatchHeader) -> tuple[list[Record], int]:
    """Return all records, and the end of the last one. Raises IndexError if they exceed the data."""
    records: list[Record] = []
    add, new = records.append, tuple.__new__
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    check_time(header, base_timestamp)
    total = len(data)
    at = 0
    for _ in range(header.record_count):
        size = data[at]
        at += 1
        if size > 127:
            size, at = more(data, at, size)
        end = at + (size >> 1)
        if size & 1 or end > total:
            raise IndexError
        at += 1  # a record's attributes are unused so far

        delta = data[at]
        at += 1
        if delta > 127:
            delta, at = more(data, at, delta)
            if delta > MOST_TIME:
                check_time(header, (delta >> 1) ^ -(delta & 1))
        timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1))

        delta = data[at]
        at += 1
        if delta > 127:
            delta, at = more(data, at, delta)
        if delta & 1 or delta >= 2 * MOST_OFFSET_DELTA:
            raise malformed(header, "a record's offset is outside its batch")
        offset = base_offset + (delta >> 1)

        size = data[at]
        at += 1
        if size > 127:
            size, at = more(data, at, size)
        if size & 1:
            key = None  # like the Java client, treat any negative length as null
        else:
            start, at = at, at + (size >> 1)
            key = data[start:at]

        size = data[at]
        at += 1
        if size > 127:
            size, at = more(data, at, size)
        if size & 1:
            value = None
        else:
            start, at = at, at + (size >> 1)
            value = data[start:at]

        headers: Sequence[Header] = ()
        if data[at]:
            headers, at = _decode_headers(data, at)
        else:
            at += 1
        # Positions only increase, so a field that exceeds the record is detected here.
        if at != end:
            raise malformed(header, "a record's fields do not fill its length")
        if append_time is not None:
            timestamp = append_time
        add(new(Record, (offset, timestamp, key, value, headers)))
    return records, at


def more(data: bytes, at: int, low: int) -> tuple[int, int]:
    """Return a varint of two or more bytes, before zigzag decoding, and its end. `low` is its first byte."""
    byte = data[at]
    if byte < 128:
        return low & 127 | byte << 7, at + 1
    value = low & 127 | (byte & 127) << 7
    shift = 14
    while shift < 70:
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _UINT64, at + 1  # as in Java, a long: excess bits of a tenth byte are lost
        shift += 7
    raise IndexError


def _decode_headers(data: bytes, at: int) -> tuple[list[Header], int]:
    count, at = _varint(data, at)
    if count < 0:
        raise IndexError
    headers: list[Header] = []
    for _ in range(count):
        size, at = _varint(data, at)
        if size < 0 or at + size > len(data):
            raise IndexError
        key = data[at : at + size].decode()
        at += size
        size, at = _varint(data, at)
        if size < 0:
            headers.append((key, None))
        elif at + size > len(data):
            raise IndexError
        else:
            headers.append((key, data[at : at + size]))
            at += size
    return headers, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    at += 1
    if value > 127:
        value, at = more(data, at, value)
    return (value >> 1) ^ -(value & 1), at
