"""Encode records as record batches v2."""

from collections.abc import Iterable, Sequence
from operator import add

from kohort.model import Millis
from kohort.wire.batches.batch import (
    HEADER_SIZE,
    MAGIC,
    NO_PRODUCER_ID,
    BatchHeader,
    attributes_of,
    pack_header,
    read_header,
    seal,
)
from kohort.wire.batches.compression import MAX_INFLATED_BYTES, Buffer, Codec, compress, decompress
from kohort.wire.batches.record_reader import Header, Record

_LENGTH_FROM = 12
_FEW = 8
"""Number of records from which encoding them together is faster than one by one."""


class BatchBuilder:
    """Builder of one batch. The owner limits its size by means of `size`.

    `append` encodes immediately. `defer` lets records that follow each other with the same timestamp
    be encoded together, which takes half the time.
    """

    __slots__ = (
        "_base_offset",
        "_base_timestamp",
        "_deferred_keys",
        "_deferred_time",
        "_deferred_values",
        "_last_offset",
        "_max_timestamp",
        "_parts",
        "count",
        "size",
    )

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._deferred_time: Millis = 0
        self._deferred_keys: list[bytes | None] = []
        self._deferred_values: list[bytes | None] = []
        self._base_offset = 0
        self._last_offset = 0
        self._base_timestamp: Millis = 0
        self._max_timestamp: Millis = -1
        self.count = 0
        self.size = HEADER_SIZE
        """Current size of the batch, in bytes, uncompressed, without deferred records."""

    def append(
        self,
        timestamp: Millis,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        offset: int | None = None,
    ) -> None:
        """Add a record, by default at the next offset."""
        if self._deferred_values:
            self._pack_deferred()
        if offset is None:
            offset = self._last_offset + 1 if self.count else 0
        if not self.count:
            self._base_offset, self._base_timestamp = offset, timestamp
        assert offset >= self._base_offset + self.count
        # Inlines signed_varint, because one call per number would be most of the cost of producing
        # a record.
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

    def append_values(self, timestamp: Millis, values: Sequence[bytes]) -> None:
        """Add records without keys and headers at the next offsets, all with the same timestamp.

        No loop in Python visits each record, which makes it several times as fast as `append`.
        """
        if not values:
            return
        if self._deferred_values:
            self._pack_deferred()
        if not self.count:
            self._base_timestamp = timestamp
        first = self._last_offset + 1 - self._base_offset if self.count else 0
        start = b"\0" + signed_varint(timestamp - self._base_timestamp)
        sizes = list(map(len, values))
        fields = {size: b"\1" + signed_varint(size) for size in set(sizes)}
        at = 0
        while at < len(values):
            # Offsets of the same width, so that the length of a record follows from that of its value.
            number = first + at
            width = len(signed_varint(number))
            end = min(len(values), at + (1 << 7 * width - 1) - number)
            fixed = len(start) + width + 1  # the header count, too
            heads = {size: signed_varint(fixed + len(field) + size) + start for size, field in fields.items()}
            parts = [b"\0"] * (5 * (end - at))
            parts[::5] = map(heads.__getitem__, sizes[at:end])
            parts[1::5] = signed_varints(number, first + end)
            parts[2::5] = map(fields.__getitem__, sizes[at:end])
            parts[3::5] = values[at:end]
            self._add_packed(b"".join(parts), end - at, timestamp)
            at = end

    def defer(self, timestamp: Millis, key: bytes | None, value: bytes | None) -> int:
        """Add a record at the next offset, to be encoded later. Return the number of records before it."""
        if timestamp != self._deferred_time:
            if self._deferred_values:
                self._pack_deferred()
            self._deferred_time = timestamp
        self._deferred_keys.append(key)
        self._deferred_values.append(value)
        before = self.count
        self.count = before + 1
        return before

    def pack(self) -> None:
        """Encode the deferred records, so that `size` includes them."""
        if self._deferred_values:
            self._pack_deferred()

    def _pack_deferred(self) -> None:
        timestamp, keys, values = self._deferred_time, self._deferred_keys, self._deferred_values
        self._deferred_keys, self._deferred_values = [], []
        self.count -= len(values)
        nulls = keys.count(None)
        if len(values) < _FEW or None in values or 0 < nulls < len(keys):
            for key, value in zip(keys, values, strict=True):
                self.append(timestamp, key, value)
        elif nulls:
            self.append_values(timestamp, values)  # type: ignore[arg-type]  # none is None
        else:
            self.append_pairs(timestamp, keys, values)  # type: ignore[arg-type]  # none is None

    def append_pairs(self, timestamp: Millis, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add records with these keys and values, as `append_values` does."""
        if self._deferred_values:
            self._pack_deferred()
        if not self.count:
            self._base_timestamp = timestamp
        first = self._last_offset + 1 - self._base_offset if self.count else 0
        start = b"\0" + signed_varint(timestamp - self._base_timestamp)
        key_fields, key_sizes = _fields(keys)
        value_fields, value_sizes = _fields(values)
        sizes = list(map(add, key_sizes, value_sizes))
        at = 0
        while at < len(values):
            # Offsets of the same width, so that the length of a record follows from those of its key and value.
            number = first + at
            width = len(signed_varint(number))
            end = min(len(values), at + (1 << 7 * width - 1) - number)
            fixed = len(start) + width + 1  # the header count, too
            heads = {size: signed_varint(fixed + size) + start for size in set(sizes[at:end])}
            parts = [b"\0"] * (7 * (end - at))
            parts[::7] = map(heads.__getitem__, sizes[at:end])
            parts[1::7] = signed_varints(number, first + end)
            parts[2::7] = key_fields[at:end]
            parts[3::7] = keys[at:end]
            parts[4::7] = value_fields[at:end]
            parts[5::7] = values[at:end]
            self._add_packed(b"".join(parts), end - at, timestamp)
            at = end

    def _add_packed(self, packed: bytes, count: int, timestamp: Millis) -> None:
        self._parts.append(packed)
        self.size += len(packed)
        self._last_offset = self._last_offset + count if self.count else count - 1
        self.count += count
        self._max_timestamp = max(self._max_timestamp, timestamp)

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
        """Return the batch with its checksum. The builder may build again with other arguments."""
        assert self.count
        if self._deferred_values:
            self._pack_deferred()
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
    """Encode a batch of at least one record. Offsets must increase; gaps are kept, as compaction leaves them."""
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
    records: Buffer,
    count: int,
    timestamp: Millis,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    sequence: int = -1,
    *,
    transactional: bool = False,
) -> bytearray:
    """Return a batch of `count` encoded records with the same timestamp and with offset deltas from 0 on."""
    packed = compress(codec, records)
    header = BatchHeader(
        base_offset=0,
        batch_length=HEADER_SIZE - _LENGTH_FROM + len(packed),
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=attributes_of(codec, transactional=transactional),
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
    """Return the batch in `batch` compressed with another codec. Raises BatchError if it cannot be decompressed."""
    header = read_header(batch, 0)
    packed = memoryview(batch)[HEADER_SIZE : header.size]
    records = compress(codec, decompress(header.codec, bytes(packed), max_bytes))
    length, attributes = HEADER_SIZE - _LENGTH_FROM + len(records), (header.attributes ^ header.codec) | codec
    return sealed(header._replace(batch_length=length, attributes=attributes), [records])


def encode_pairs(pairs: Sequence[tuple[bytes, bytes | None]], timestamp: Millis) -> bytearray:
    """Encode an uncompressed batch of these keys and values with one timestamp."""
    assert pairs
    deltas = signed_varints(0, len(pairs))
    records = [pack_record(delta, key, value) for delta, (key, value) in zip(deltas, pairs, strict=True)]
    return pack_batch(b"".join(records), len(pairs), timestamp)


def pack_record(delta: bytes, key: bytes, value: bytes | None) -> bytes:
    """Encode a record without headers for `pack_batch`; `delta` is its encoded offset delta."""
    body = b"".join(
        (
            b"\0\0",  # attributes and timestamp delta
            delta,
            signed_varint(len(key)),
            key,
            b"\1" if value is None else signed_varint(len(value)),
            value or b"",
            b"\0",
        )
    )
    return signed_varint(len(body)) + body


def sealed(header: BatchHeader, parts: list[Buffer]) -> bytearray:
    """Return a batch with this header and these encoded records, and set its checksum."""
    batch = bytearray().join([pack_header(header), *parts])
    seal(batch)
    return batch


def pack_headers(headers: Sequence[Header]) -> bytes:
    """Encode a record's headers, with their count in front."""
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
    """Encode a zigzag varint, the encoding of all numbers in records."""
    return _VARINTS[value] if 0 <= value < 8192 else _pack_varint(value)


def signed_varints(start: int, end: int) -> Sequence[bytes]:
    """Encode the numbers from `start` to before `end` as signed varints."""
    return _VARINTS[start:end] if end <= len(_VARINTS) else list(map(signed_varint, range(start, end)))


def _fields(column: Sequence[bytes]) -> tuple[list[bytes], list[int]]:
    """Return the encoded length of each of these keys or values, and the bytes that it and its length take."""
    lengths = list(map(len, column))
    if max(lengths) < len(_SIZES):
        return list(map(_VARINTS.__getitem__, lengths)), list(map(_SIZES.__getitem__, lengths))
    encoded = list(map(signed_varint, lengths))
    return encoded, list(map(add, map(len, encoded), lengths))


_SIZES = [n + len(_VARINTS[n]) for n in range(4096)]
"""Size of a field: the bytes of its length and of its content, by length."""
