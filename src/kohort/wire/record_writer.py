"""From records to the bytes of a record batch v2."""

from collections.abc import Iterable, Sequence

from kohort.model import Millis
from kohort.wire.batch import (
    HEADER_SIZE,
    MAGIC,
    NO_PRODUCER_ID,
    BatchHeader,
    attributes_of,
    pack_header,
    read_header,
    seal,
)
from kohort.wire.compression import MAX_INFLATED_BYTES, Buffer, Codec, compress, decompress
from kohort.wire.record_reader import Header, Record

_LENGTH_FROM = 12


class BatchBuilder:
    """Gathers records into one batch, whose records must fit where its owner says: `size` tells how far it is.

    `append` packs at once, so `build` only compresses and seals.
    """

    __slots__ = ("_base_offset", "_base_timestamp", "_last_offset", "_max_timestamp", "_parts", "count", "size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._base_offset = 0
        self._last_offset = 0
        self._base_timestamp: Millis = 0
        self._max_timestamp: Millis = -1
        self.count = 0
        self.size = HEADER_SIZE
        """Bytes of the batch so far, uncompressed."""

    def append(
        self,
        timestamp: Millis,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        offset: int | None = None,
    ) -> None:
        """Add one record, behind the last one where no offset is given."""
        if offset is None:
            offset = self._last_offset + 1 if self.count else 0
        if not self.count:
            self._base_offset, self._base_timestamp = offset, timestamp
        assert offset >= self._base_offset + self.count
        # As signed_varint, without a call for each number: this is most of what producing a record costs.
        varints = _VARINTS
        delta, number = timestamp - self._base_timestamp, offset - self._base_offset
        key_size = 0 if key is None else len(key)
        value_size = 0 if value is None else len(value)
        body = b"".join(
            (
                b"\0",
                varints[delta] if 0 <= delta < 8192 else _pack_varint(delta),
                varints[number] if number < 8192 else _pack_varint(number),
                b"\1" if key is None else varints[key_size] if key_size < 8192 else _pack_varint(key_size),
                key or b"",
                b"\1" if value is None else varints[value_size] if value_size < 8192 else _pack_varint(value_size),
                value or b"",
                pack_headers(headers) if headers else b"\0",
            )
        )
        size = len(body)
        length = varints[size] if size < 8192 else _pack_varint(size)
        self._parts += (length, body)
        self.size += len(length) + size
        self.count += 1
        self._last_offset = offset
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp

    def build(
        self,
        codec: Codec = Codec.NONE,
        *,
        leader_epoch: int = -1,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
    ) -> bytearray:
        """The sealed batch. The builder may be built from again, with other numbers."""
        assert self.count
        records = compress(codec, b"".join(self._parts))
        header = BatchHeader(
            base_offset=self._base_offset,
            batch_length=HEADER_SIZE - _LENGTH_FROM + len(records),
            leader_epoch=leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=attributes_of(codec, transactional=transactional, control=control),
            last_offset_delta=self._last_offset - self._base_offset,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.count,
        )
        return sealed(header, [records])


def encode_batch(
    records: Iterable[Record],
    codec: Codec = Codec.NONE,
    *,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """One batch of at least one record, whose offsets rise; gaps stay, as compaction leaves them."""
    builder = BatchBuilder()
    for offset, timestamp, key, value, headers in records:
        builder.append(timestamp, key, value, headers, offset)
    return builder.build(
        codec,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
    )


def pack_batch(
    records: bytes, count: int, timestamp: Millis, codec: Codec, producer_id: int, producer_epoch: int, sequence: int
) -> bytearray:
    """One batch of so many records that are packed already, offset deltas from 0 on, all at the batch's one time."""
    packed = compress(codec, records)
    header = BatchHeader(
        base_offset=0,
        batch_length=HEADER_SIZE - _LENGTH_FROM + len(packed),
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=attributes_of(codec),
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        record_count=count,
    )
    return sealed(header, [packed])


def recompress(batch: Buffer, codec: Codec, *, max_bytes: int = MAX_INFLATED_BYTES) -> bytearray:
    """The one batch in `batch` with its records, as they are, in another codec; BatchError where they do not unpack."""
    header = read_header(batch, 0)
    packed = memoryview(batch)[HEADER_SIZE : header.size]
    records = compress(codec, decompress(header.codec, bytes(packed), max_bytes))
    length, attributes = HEADER_SIZE - _LENGTH_FROM + len(records), (header.attributes ^ header.codec) | codec
    return sealed(header._replace(batch_length=length, attributes=attributes), [records])


def encode_pairs(pairs: Sequence[tuple[bytes, bytes | None]], timestamp: Millis) -> bytearray:
    """One uncompressed batch of these keys and values at one time: what a coordinator appends for a commit.

    The hottest writer there is, hence the tables: every length up to 4095 is looked up, not computed.
    """
    count = len(pairs)
    assert count
    parts: list[Buffer] = []
    varints, sizes, heads = _VARINTS, _SIZES, _HEADS
    try:
        for delta, (key, value) in enumerate(pairs):
            key_size = len(key)
            if value is None:
                parts += (
                    heads[sizes[key_size] + _DELTA_SIZES[delta]],
                    varints[delta],
                    varints[key_size],
                    key,
                    b"\1",
                )
            else:
                value_size = len(value)
                parts += (
                    heads[sizes[key_size] + sizes[value_size] + _DELTA_SIZES[delta] - 1],
                    varints[delta],
                    varints[key_size],
                    key,
                    varints[value_size],
                    value,
                )
    except IndexError:  # a long record, or very many
        return encode_batch(Record(offset, timestamp, key, value) for offset, (key, value) in enumerate(pairs))
    parts[0] = parts[0][1:]  # each head begins with the header count of the record before
    parts.append(b"\0")
    size = sum(map(len, parts))
    header = BatchHeader(
        0, HEADER_SIZE - _LENGTH_FROM + size, -1, MAGIC, 0, 0, count - 1, timestamp, timestamp, -1, -1, -1, count
    )
    return sealed(header, parts)


def sealed(header: BatchHeader, parts: list[Buffer]) -> bytearray:
    """A batch of this header and these packed records, its checksum computed."""
    batch = bytearray(pack_header(header))
    batch += b"".join(parts)
    seal(batch)
    return batch


def pack_headers(headers: Sequence[Header]) -> bytes:
    """A record's headers, their count in front."""
    parts = [signed_varint(len(headers))]
    for key, value in headers:
        name = key.encode()
        parts += (signed_varint(len(name)), name)
        parts.append(b"\1" if value is None else signed_varint(len(value)) + value)
    return b"".join(parts)


def _pack_varint(value: int) -> bytes:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_VARINTS = [_pack_varint(n) for n in range(8192)]


def signed_varint(value: int) -> bytes:
    """The zigzag varint that record batches use for every number."""
    return _VARINTS[value] if 0 <= value < 8192 else _pack_varint(value)


_SIZES = [n + len(_VARINTS[n]) for n in range(4096)]
"""Bytes of a length and of what has that length."""
_DELTA_SIZES = [4 + len(varint) for varint in _VARINTS]
"""Bytes of a record beside its key and value: attributes, time delta, header count, a null value, this offset delta."""
_HEADS = [b"\0" + signed_varint(n) + b"\0\0" for n in range(8448)]
"""Header count of the record before, a record's length, its attributes and its time delta of 0."""
