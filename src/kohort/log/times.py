"""Find records by time, from a log's start offset on."""

from collections.abc import Iterator, Sequence
from itertools import islice

from kohort.log.api import OffsetAndTime
from kohort.log.segment import Segment
from kohort.model import Millis
from kohort.wire.batches import BatchError, BatchHeader, decode_records


def find_time(segments: Sequence[Segment], start_offset: int, timestamp: Millis) -> OffsetAndTime | None:
    """Return the first record at or after that time."""
    for segment in segments:
        if segment.max_timestamp < timestamp or segment.end_offset <= start_offset:
            continue
        for position, header in segment.headers(segment.index.position_before_time(timestamp)):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                found = _first_record_from(segment, position, header, timestamp, start_offset)
                if found is not None:
                    return found
    return None


def find_max_time(segments: Sequence[Segment], start_offset: int) -> OffsetAndTime | None:
    """Return the record with the largest timestamp, the first one if several have it (KIP-734)."""
    found: tuple[Segment, int, BatchHeader] | None = None
    for segment in segments:
        for position, header in _newest_batches(segment, start_offset):
            if not header.record_count:
                continue  # compaction removed all its records
            if found is None or header.max_timestamp > found[2].max_timestamp:
                found = segment, position, header
    return _first_record_from(*found, found[2].max_timestamp, start_offset) if found else None


def _newest_batches(segment: Segment, start_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the batch with the largest timestamp; if the log starts inside the segment, all batches from there on."""
    if segment.base_offset >= start_offset:
        yield from islice(segment.headers(segment.max_timestamp_at), 1)
    elif (position := segment.locate(start_offset)) is not None:
        yield from segment.headers(position)


def _first_record_from(
    segment: Segment, position: int, header: BatchHeader, timestamp: Millis, start_offset: int
) -> OffsetAndTime | None:
    try:
        records = decode_records(segment.medium.read(position, header.size))
    except BatchError:
        # If a producer compressed a batch wrongly, its consumers have to cope; the batch itself is
        # the best answer.
        return OffsetAndTime(max(header.base_offset, start_offset), header.max_timestamp, header.leader_epoch)
    for record in records:
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return OffsetAndTime(record.offset, record.timestamp, header.leader_epoch)
    return None
