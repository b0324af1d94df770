"""Index file of a segment up to some size, so that opening the segment need not read that part.

The sidecar of a full segment describes all of it; that of a growing one describes its state when
the sidecar was last written. Sidecars are optional: if one is missing or torn, recovery reads the
segment.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from crc32c import crc32c

from kohort.log.index import SparseIndex
from kohort.log.producers import AbortedTransaction, Appended, Producer
from kohort.log.segment import Segment

_MAGIC = b"KIX2"
_HEAD = struct.Struct("=4sI")
_FACTS = struct.Struct("=qqqqqqIII")
_PRODUCER = struct.Struct("=qhqBqi")
_ABORTED = struct.Struct("=qqq")
_BATCH = struct.Struct("=iiqq")


@dataclass(frozen=True, slots=True)
class Sidecar:
    """State of a segment when it had `size` bytes, all of them synced, and the partition's producers then."""

    base_offset: int
    end_offset: int
    size: int
    first_timestamp: int
    max_timestamp: int
    max_timestamp_at: int
    index: SparseIndex
    producers: dict[int, Producer]
    aborted: list[AbortedTransaction]

    def apply(self, segment: Segment) -> None:
        """Restore the segment's state."""
        segment.end_offset = self.end_offset
        segment.size = segment.planned = self.size
        segment.first_timestamp = self.first_timestamp
        segment.max_timestamp, segment.max_timestamp_at = self.max_timestamp, self.max_timestamp_at
        segment.index = self.index
        segment.aborted = self.aborted
        segment.has_sidecar = True
        segment.in_sidecar = self.size
        segment.doubtful_to = self.size


def encode_sidecar(segment: Segment, producers: Mapping[int, Producer]) -> bytes:
    """Return the content of the sidecar file."""
    index = segment.index.to_bytes()
    parts = [
        _FACTS.pack(
            segment.base_offset,
            segment.end_offset,
            segment.size,
            segment.first_timestamp,
            segment.max_timestamp,
            segment.max_timestamp_at,
            len(index),
            len(producers),
            len(segment.aborted),
        ),
        index,
        *(_ABORTED.pack(*aborted) for aborted in segment.aborted),
    ]
    for number, producer in producers.items():
        start, coordinator_epoch = producer.transaction_start, producer.coordinator_epoch
        parts.append(
            _PRODUCER.pack(
                number,
                producer.epoch,
                producer.last_timestamp,
                len(producer.batches),
                -1 if start is None else start,
                -1 if coordinator_epoch is None else coordinator_epoch,
            )
        )
        parts += [_BATCH.pack(*batch) for batch in producer.batches]
    body = b"".join(parts)
    return _HEAD.pack(_MAGIC, crc32c(body)) + body


def decode_sidecar(data: bytes, base_offset: int, size: int) -> Sidecar | None:
    """Parse a sidecar file.

    Returns None if it is damaged, has another base offset, or describes more than `size` bytes.
    """
    if len(data) < _HEAD.size + _FACTS.size:
        return None
    magic, crc = _HEAD.unpack_from(data)
    if magic != _MAGIC or crc != crc32c(memoryview(data)[_HEAD.size :]):
        return None
    at = _HEAD.size
    base, end, length, first_time, max_time, max_time_at, index_size, count, aborts = _FACTS.unpack_from(data, at)
    if base != base_offset or end < base or not 0 <= max_time_at <= length <= size:
        return None
    at += _FACTS.size
    try:
        index = SparseIndex.from_bytes(data[at : at + index_size])
        at += index_size
        ended = at + aborts * _ABORTED.size
        aborted = [AbortedTransaction._make(fields) for fields in _ABORTED.iter_unpack(data[at:ended])]
        producers = _decode_producers(data, ended, count)
    except (struct.error, ValueError):
        return None
    if index.last is not None and not 0 <= index.last[1] < length:
        return None
    return Sidecar(base, end, length, first_time, max_time, max_time_at, index, producers, aborted)


def _decode_producers(data: bytes, at: int, count: int) -> dict[int, Producer]:
    producers = {}
    for _ in range(count):
        number, epoch, last_timestamp, batches, start, coordinator_epoch = _PRODUCER.unpack_from(data, at)
        at += _PRODUCER.size
        end = at + batches * _BATCH.size
        kept = tuple(Appended._make(batch) for batch in _BATCH.iter_unpack(data[at:end]))
        producers[number] = Producer(
            epoch,
            kept,
            last_timestamp,
            None if start < 0 else start,
            None if coordinator_epoch < 0 else coordinator_epoch,
        )
        at = end
    return producers
