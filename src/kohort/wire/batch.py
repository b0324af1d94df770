"""Record batches v2 seen from outside: header, checksum, size; nothing here unpacks a record.

A batch is 61 bytes of header and then its records. The CRC-32C covers everything from `attributes` on, so a broker
may set the base offset and the leader epoch of bytes that it otherwise passes on as they came.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.compression import BatchError, Buffer, Codec

HEADER_SIZE = 61
MAGIC = 2
NO_PRODUCER_ID = -1

_HEADER = struct.Struct(">qiibIhiqqqhii")
assert _HEADER.size == HEADER_SIZE
_PLACE = struct.Struct(">qi")  # base offset and length, all that tells where the next batch starts
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")

_SIZE_AT = 8
_EPOCH_AT = 12
_MAGIC_AT = 16
_CRC_AT = 17
_CRC_FROM = 21  # attributes
_MAX_TIMESTAMP_AT = 35
_LENGTH_FROM = 12  # what `batch_length` does not count
_SMALLEST_LENGTH = 14  # CRC, magic, attributes and two sizes: the least that any format has

_CODEC_BITS = 0x07
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40


class BatchHeader(NamedTuple):
    """A batch's header, field by field as it lies on disk and on the wire."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: Millis
    max_timestamp: Millis
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + _LENGTH_FROM

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence numbers wrap at 2^31 to 0; -1 where the producer is not idempotent."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> Codec:
        """Raises BatchError for one that Kafka does not have."""
        number = self.attributes & _CODEC_BITS
        try:
            return Codec(number)
        except ValueError:
            detail = f"compression codec {number} is unknown"
            raise BatchError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, detail) from None

    @property
    def is_log_append_time(self) -> bool:
        """Every record's timestamp is `max_timestamp`, which the broker set."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Its records are transaction markers, which no application gets to see."""
        return bool(self.attributes & _CONTROL)

    @property
    def delete_horizon(self) -> Millis | None:
        """The time from which compaction may drop the batch's tombstones (KIP-534); None until it has met them once."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None

    @property
    def has_gaps(self) -> bool:
        """Whether some of its offsets have no record any more: compaction has taken them out."""
        return self.record_count != self.last_offset_delta + 1

    def without_records(self) -> "BatchHeader":
        """The header of the batch that is left when all records are gone: it still tells the sequence numbers."""
        return self._replace(
            batch_length=HEADER_SIZE - _LENGTH_FROM,
            attributes=self.attributes & ~(_CODEC_BITS | _DELETE_HORIZON),
            base_timestamp=self.max_timestamp,
            record_count=0,
        )

    def with_records(
        self, packed_size: int, count: int, max_timestamp: Millis, delete_horizon: Millis | None
    ) -> "BatchHeader":
        """The header of a batch that keeps `count` of its records, packed into so many bytes; see `delete_horizon`."""
        rest = self._replace(
            batch_length=HEADER_SIZE - _LENGTH_FROM + packed_size, max_timestamp=max_timestamp, record_count=count
        )
        if delete_horizon is None:
            return rest
        return rest._replace(attributes=self.attributes | _DELETE_HORIZON, base_timestamp=delete_horizon)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. The caller knows that HEADER_SIZE bytes are there; nothing is checked."""
    return BatchHeader._make(_HEADER.unpack_from(buffer, position))


def batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch from `position` on.

    A torn batch at the end is left out: a fetch is cut where its bytes are used up. Raises BatchError for what cannot
    be a batch v2.
    """
    end = len(buffer)
    while end - position > _MAGIC_AT:
        _, length = _PLACE.unpack_from(buffer, position)
        magic = buffer[position + _MAGIC_AT]
        size: int = length + _LENGTH_FROM
        if magic != MAGIC or size < HEADER_SIZE:
            raise _not_a_batch(magic, length)
        if end - position < size:
            return
        yield position, read_header(buffer, position)
        position += size


def crc_matches(buffer: Buffer, header: BatchHeader, position: int = 0) -> bool:
    """Whether the bytes from attributes on are those that the checksum was taken of."""
    covered = memoryview(buffer)[position + _CRC_FROM : position + header.size]
    return len(covered) == header.size - _CRC_FROM and crc32c(covered) == header.crc


def check_batches(buffer: Buffer | None, max_batch_bytes: int) -> list[BatchHeader]:
    """Check what a producer sent for one partition and return its header, always exactly one as in Kafka (KIP-98).

    Raises BatchError with the code that the broker answers.
    """
    if not buffer:
        raise BatchError(ErrorCode.INVALID_RECORD, "a produce request holds no record batch for the partition")
    headers = [header for _, header in batches(buffer)]
    if len(headers) != 1:
        what = "more than one record batch" if headers else "no whole record batch"
        raise BatchError(ErrorCode.INVALID_RECORD, f"a produce request holds {what} for the partition")
    header = headers[0]
    if header.size > max_batch_bytes:
        detail = f"the batch has {header.size} bytes, more than the {max_batch_bytes} that the topic allows"
        raise BatchError(ErrorCode.MESSAGE_TOO_LARGE, detail)
    if header.size != len(buffer):
        raise BatchError(ErrorCode.INVALID_RECORD, f"{len(buffer) - header.size} bytes follow the record batch")
    if not crc_matches(buffer, header):
        raise BatchError(ErrorCode.CORRUPT_MESSAGE, "the batch's checksum is wrong: its bytes changed on the way")
    _check_claims(header)
    return headers


def place(batch: bytearray | memoryview, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Give a batch its place in the log; its CRC stays as it is."""
    _INT64.pack_into(batch, position, base_offset)
    _INT32.pack_into(batch, position + _EPOCH_AT, leader_epoch)


def stamp(batch: bytearray | memoryview, now: Millis, position: int = 0) -> None:
    """Set a batch to log append time (message.timestamp.type=LogAppendTime), and its checksum with it."""
    batch[position + _CRC_FROM + 1] |= _LOG_APPEND_TIME
    _INT64.pack_into(batch, position + _MAX_TIMESTAMP_AT, now)
    seal(batch, position)


def seal(batch: bytearray | memoryview, position: int = 0) -> None:
    """Compute and set a batch's CRC."""
    (length,) = _INT32.unpack_from(batch, position + _SIZE_AT)
    covered = memoryview(batch)[position + _CRC_FROM : position + length + _LENGTH_FROM]
    _UINT32.pack_into(batch, position + _CRC_AT, crc32c(covered))


def pack_header(header: BatchHeader) -> bytes:
    """The header's 61 bytes."""
    return _HEADER.pack(*header)


def attributes_of(codec: Codec, *, transactional: bool = False, control: bool = False) -> int:
    """The attributes of a batch with the timestamps that its producer gave."""
    return codec | (_TRANSACTIONAL if transactional else 0) | (_CONTROL if control else 0)


def _not_a_batch(magic: int, length: int) -> BatchError:
    # The order of checks is Kafka's: a size that no format can have, then the magic byte.
    if length < _SMALLEST_LENGTH or magic > MAGIC:
        return BatchError(ErrorCode.CORRUPT_MESSAGE, f"these are no records (length {length}, magic {magic})")
    if magic < MAGIC:
        detail = f"message format v{magic} is not supported; records must come as batches v2 (Kafka 0.11 or newer)"
        return BatchError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, detail)
    return BatchError(ErrorCode.CORRUPT_MESSAGE, f"a batch of length {length} is too short for its own header")


def _check_claims(header: BatchHeader) -> None:
    """What a batch from a client says of itself must be consistent."""
    _ = header.codec
    if header.record_count <= 0:
        raise BatchError(ErrorCode.INVALID_RECORD, f"the batch says that it holds {header.record_count} records")
    if header.last_offset_delta + 1 != header.record_count:
        detail = f"the batch holds {header.record_count} records but offsets up to {header.last_offset_delta}"
        raise BatchError(ErrorCode.INVALID_RECORD, detail)
    if header.is_control:
        raise BatchError(ErrorCode.INVALID_RECORD, "a client may not write control records")
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        raise BatchError(ErrorCode.INVALID_RECORD, "the batch has a producer id but no epoch or sequence number")
