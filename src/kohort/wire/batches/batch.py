"""Headers, checksums and sizes of record batches v2. Nothing here unpacks records.

A batch is a header of 61 bytes followed by its records. The CRC-32C covers everything from
`attributes` on, so a broker may set the base offset and the leader epoch in bytes that it otherwise
passes on unchanged.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.batches.compression import BatchError, Buffer, Codec

HEADER_SIZE = 61
MAGIC = 2
NO_PRODUCER_ID = -1

_HEADER = struct.Struct(">qiibIhiqqqhii")
assert _HEADER.size == HEADER_SIZE
_PLACE = struct.Struct(">qi")  # base offset and length, which determine the start of the next batch
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")

_SIZE_AT = 8
_EPOCH_AT = 12
_MAGIC_AT = 16
_CRC_AT = 17
_CRC_FROM = 21  # attributes
_ATTRIBUTES_AT = 22  # their lower byte
_MAX_TIMESTAMP_AT = 35
_LENGTH_FROM = 12  # not included in `batch_length`
_SMALLEST_LENGTH = 14  # CRC, magic, attributes and two sizes: the minimum of any format

_CODEC_BITS = 0x07
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40


class BatchHeader(NamedTuple):
    """Header of a batch, with its fields in the order on disk and on the wire."""

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
        """Size of the whole batch, in bytes."""
        return self.batch_length + _LENGTH_FROM

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Last sequence number, or -1 if the producer is not idempotent. Sequence numbers wrap at 2^31 to 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> Codec:
        """Compression codec. Raises BatchError if Kafka does not have it."""
        number = self.attributes & _CODEC_BITS
        try:
            return Codec(number)
        except ValueError:
            detail = f"compression codec {number} is unknown"
            raise BatchError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, detail) from None

    @property
    def is_log_append_time(self) -> bool:
        """Whether the timestamp of every record is `max_timestamp`, which the broker set."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are transaction markers, which are invisible to applications."""
        return bool(self.attributes & _CONTROL)

    @property
    def delete_horizon(self) -> Millis | None:
        """Time from which compaction may remove the batch's tombstones (KIP-534).

        None until compaction has processed them once.
        """
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None

    @property
    def has_gaps(self) -> bool:
        """Whether some of its offsets have no record because compaction removed it."""
        return self.record_count != self.last_offset_delta + 1

    def without_records(self) -> "BatchHeader":
        """Return the header of the batch without any records. It retains the sequence numbers."""
        return self._replace(
            batch_length=HEADER_SIZE - _LENGTH_FROM,
            attributes=self.attributes & ~(_CODEC_BITS | _DELETE_HORIZON),
            base_timestamp=self.max_timestamp,
            record_count=0,
        )

    def with_records(
        self, packed_size: int, count: int, max_timestamp: Millis, delete_horizon: Millis | None
    ) -> "BatchHeader":
        """Return the header of the batch with `count` of its records, which take `packed_size` bytes.

        See the property `delete_horizon`.
        """
        rest = self._replace(
            batch_length=HEADER_SIZE - _LENGTH_FROM + packed_size, max_timestamp=max_timestamp, record_count=count
        )
        if delete_horizon is None:
            return rest
        return rest._replace(attributes=self.attributes | _DELETE_HORIZON, base_timestamp=delete_horizon)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`, without checks. The caller ensures that HEADER_SIZE bytes exist."""
    return BatchHeader._make(_HEADER.unpack_from(buffer, position))


def batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each whole batch from `position` on.

    An incomplete batch at the end is skipped, because a fetch cuts off the data at its maximum
    size. Raises BatchError for bytes that cannot be a batch v2.
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


def is_transactional(batch: Buffer | None) -> bool:
    """Return whether the header of a batch says that it is part of a transaction; False if there is no header."""
    return (
        batch is not None
        and len(batch) >= HEADER_SIZE
        and batch[_MAGIC_AT] == MAGIC
        and bool(batch[_ATTRIBUTES_AT] & _TRANSACTIONAL)
    )


def crc_matches(buffer: Buffer, header: BatchHeader, position: int = 0) -> bool:
    """Return whether the checksum matches the bytes from attributes on."""
    covered = memoryview(buffer)[position + _CRC_FROM : position + header.size]
    return len(covered) == header.size - _CRC_FROM and crc32c(covered) == header.crc


def check_batches(buffer: Buffer | None, max_batch_bytes: int) -> list[BatchHeader]:
    """Check a producer's data for one partition, and return its batch headers: exactly one, as in Kafka (KIP-98).

    Raises BatchError with the error code for the response.
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
        raise BatchError(ErrorCode.CORRUPT_MESSAGE, "the batch's checksum is wrong: its bytes changed in transit")
    _check_claims(header)
    return headers


def place(batch: bytearray | memoryview, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Set a batch's base offset and leader epoch in the log. Its CRC does not change."""
    _INT64.pack_into(batch, position, base_offset)
    _INT32.pack_into(batch, position + _EPOCH_AT, leader_epoch)


def stamp(batch: bytearray | memoryview, now: Millis, position: int = 0) -> None:
    """Set a batch to log append time (message.timestamp.type=LogAppendTime), and update its checksum."""
    batch[position + _CRC_FROM + 1] |= _LOG_APPEND_TIME
    _INT64.pack_into(batch, position + _MAX_TIMESTAMP_AT, now)
    seal(batch, position)


def seal(batch: bytearray | memoryview, position: int = 0) -> None:
    """Compute and set a batch's CRC."""
    (length,) = _INT32.unpack_from(batch, position + _SIZE_AT)
    covered = memoryview(batch)[position + _CRC_FROM : position + length + _LENGTH_FROM]
    _UINT32.pack_into(batch, position + _CRC_AT, crc32c(covered))


def pack_header(header: BatchHeader) -> bytes:
    """Encode the header, 61 bytes."""
    return _HEADER.pack(*header)


def attributes_of(codec: Codec, *, transactional: bool = False, control: bool = False) -> int:
    """Return the attributes of a batch with timestamps from its producer (CreateTime)."""
    return codec | (_TRANSACTIONAL if transactional else 0) | (_CONTROL if control else 0)


def _not_a_batch(magic: int, length: int) -> BatchError:
    # Same order of checks as in Kafka: first a size that no format allows, then the magic byte.
    if length < _SMALLEST_LENGTH or magic > MAGIC:
        return BatchError(ErrorCode.CORRUPT_MESSAGE, f"these are not records (length {length}, magic {magic})")
    if magic < MAGIC:
        detail = f"message format v{magic} is not supported; records must come as batches v2 (Kafka 0.11 or newer)"
        return BatchError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, detail)
    return BatchError(ErrorCode.CORRUPT_MESSAGE, f"a batch of length {length} is too short for its own header")


def _check_claims(header: BatchHeader) -> None:
    """Check that the header fields of a client's batch are consistent."""
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
