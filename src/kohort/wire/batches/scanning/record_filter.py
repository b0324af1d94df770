"""Remove records from a record batch v2 and keep everything else: the basic step of compaction.

The remaining records keep their offsets. The batch keeps its base offset, last offset and sequence
numbers, so consumers and idempotent producers can use a log with gaps as before.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kohort.model import Millis
from kohort.wire.batches.batch import BatchHeader
from kohort.wire.batches.compression import Buffer, compress
from kohort.wire.batches.record_reader import MOST_OFFSET_DELTA, check_time, malformed, more, unpacked
from kohort.wire.batches.record_writer import sealed, signed_varint


class Scanned(NamedTuple):
    """A record, as positions in the uncompressed data of its batch."""

    offset: int
    timestamp: Millis
    key: bytes | None
    is_tombstone: bool
    start: int
    body_at: int
    """Position after the length."""
    rest_at: int
    """Position after the timestamp delta."""
    end: int


def scan_records(batch: Buffer, position: int = 0) -> tuple[BatchHeader, bytes, list[Scanned]]:
    """Return the header of the batch at `position`, its uncompressed records, and their positions.

    Raises BatchError.
    """
    header, data = unpacked(batch, position)
    records: list[Scanned] = []
    at = 0
    try:
        for _ in range(header.record_count):
            record = _scan(data, at, header)
            records.append(record)
            at = record.end
    except IndexError:
        raise malformed(header, "a record passes the end of the batch") from None
    if at != len(data):
        raise malformed(header, f"{len(data) - at} bytes follow its last record")
    return header, data, records


def with_records(
    header: BatchHeader, data: bytes, kept: Sequence[Scanned], delete_horizon: Millis | None = None
) -> bytearray:
    """Return the batch with only these records. Without any, its header still contains the sequence numbers.

    `delete_horizon` is the time from which its tombstones may be removed. As in Kafka (KIP-534), it
    replaces the base timestamp, to which all timestamp deltas are relative.
    """
    if not kept:
        return sealed(header.without_records(), [])
    if delete_horizon is None:
        parts = [data[kept_record.start : kept_record.end] for kept_record in kept]
    else:
        parts = [_shifted(data, kept_record, kept_record.timestamp - delete_horizon) for kept_record in kept]
    records = compress(header.codec, b"".join(parts))
    newest = header.max_timestamp if header.is_log_append_time else max(kept_record.timestamp for kept_record in kept)
    return sealed(header.with_records(len(records), len(kept), newest, delete_horizon), [records])


def _shifted(data: bytes, record: Scanned, delta: int) -> bytes:
    """Return a record's bytes with another timestamp delta."""
    body = data[record.body_at : record.body_at + 1] + signed_varint(delta) + data[record.rest_at : record.end]
    return signed_varint(len(body)) + body


def _scan(data: bytes, start: int, header: BatchHeader) -> Scanned:
    size, body_at = _signed(data, start)
    end = body_at + size
    if size < 0 or end > len(data):
        raise IndexError
    time_delta, rest_at = _signed(data, body_at + 1)
    offset_delta, at = _signed(data, rest_at)
    size, at = _signed(data, at)
    key = None if size < 0 else data[at : at + size]
    value_size, at = _signed(data, at + max(size, 0))
    if not 0 <= offset_delta < MOST_OFFSET_DELTA:
        raise malformed(header, "a record's offset is outside its batch")
    check_time(header, header.base_timestamp)
    check_time(header, time_delta)
    if at + max(value_size, 0) >= end:
        raise malformed(header, "a record's fields do not fill its length")
    offset, timestamp = header.base_offset + offset_delta, header.base_timestamp + time_delta
    return Scanned(offset, timestamp, key, value_size < 0, start, body_at, rest_at, end)


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    at += 1
    if value > 127:
        value, at = more(data, at, value)
    return (value >> 1) ^ -(value & 1), at
