"""Confluent's wire format: how a record names the schema of its key or value.

Prefix: magic byte 0 and the schema's ID (int32) precede the data. Header: magic byte 1 and the
schema's GUID (16 bytes) are a header of the record, and the data follows without a prefix. With
Protobuf the indexes of the message within its file follow the ID or the GUID.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from kohort.loading import Part
from kohort.schema_registry.schemas import SchemaMismatchError
from kohort.wire.batches import Header

HEADER_NAMES: dict[Part, str] = {"key": "__key_schema_id", "value": "__value_schema_id"}
_MAGIC_ID, _MAGIC_GUID = 0, 1
_ID = struct.Struct(">BI")
_GUID_BYTES = 16
_MOST_INDEXES = 100
"""Limit on the nesting of Protobuf messages; Protobuf's own is of this order."""


@dataclass(frozen=True, slots=True)
class SchemaName:
    """ID or GUID of a schema, and the indexes of a Protobuf message."""

    id: int | UUID
    indexes: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"ID {self.id}" if isinstance(self.id, int) else f"GUID {self.id}"


def encode_name(name: SchemaName) -> bytes:
    """Return the bytes of a prefix (ID) or of a header's value (GUID)."""
    start = _ID.pack(_MAGIC_ID, name.id) if isinstance(name.id, int) else bytes([_MAGIC_GUID]) + name.id.bytes
    return start + encode_indexes(name.indexes)


def split(part: Part, headers: Sequence[Header], data: bytes, *, indexed: bool) -> tuple[SchemaName, int]:
    """Return the schema's name, and where the data begins. `indexed` means that indexes follow the name.

    A header counts before a prefix, as in Confluent's clients. Raises SchemaMismatchError.
    """
    wanted = HEADER_NAMES[part]
    for name, value in headers:
        if name == wanted and value is not None:
            return _decode(value, f"header {wanted}", indexed=indexed)[0], 0
    return _decode(data, part, indexed=indexed)


def without_name(part: Part, headers: list[Header]) -> None:
    """Remove the name of another schema from the headers, which would be read before a prefix."""
    wanted = HEADER_NAMES[part]
    if any(name == wanted for name, _ in headers):
        headers[:] = [header for header in headers if header[0] != wanted]


def _decode(data: bytes, where: str, *, indexed: bool) -> tuple[SchemaName, int]:
    if not data:
        raise SchemaMismatchError(f"the {where} is empty, so it names no schema.")
    schema_id: int | UUID
    if data[0] == _MAGIC_ID:
        end = _ID.size
        _check_length(data, end, where)
        schema_id = _ID.unpack_from(data)[1]
    elif data[0] == _MAGIC_GUID:
        end = 1 + _GUID_BYTES
        _check_length(data, end, where)
        schema_id = UUID(bytes=bytes(data[1:end]))
    else:
        raise SchemaMismatchError(
            f"the {where} begins with byte {data[0]:#04x} instead of magic byte 0 or 1: it was not written by a"
            " serializer of a schema registry."
        )
    if not indexed:
        return SchemaName(schema_id), end
    indexes, end = decode_indexes(data, end, where)
    return SchemaName(schema_id, indexes), end


def _check_length(data: bytes, end: int, where: str) -> None:
    if len(data) < end:
        raise SchemaMismatchError(f"the {where} has {len(data)} bytes, but the name of a schema takes {end}.")


def encode_indexes(indexes: tuple[int, ...]) -> bytes:
    """Return the number of indexes and the indexes as zigzag varints. The first message of a file is one zero byte."""
    if not indexes:
        return b""
    if indexes == (0,):
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(indexes), *indexes))  # zigzag of a number that is not < 0


def decode_indexes(data: bytes, start: int, where: str) -> tuple[tuple[int, ...], int]:
    """Return the indexes, and where the data begins. Raises SchemaMismatchError."""
    count, at = _read_varint(data, start, where)
    if count == 0:
        return (0,), at
    if count > _MOST_INDEXES:
        raise SchemaMismatchError(f"the {where} has {count} message indexes, which is no Protobuf message.")
    found = []
    for _ in range(count):
        index, at = _read_varint(data, at, where)
        found.append(index)
    return tuple(found), at


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _read_varint(data: bytes, at: int, where: str) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 28:
            raise SchemaMismatchError(f"the message indexes in the {where} are incomplete or invalid.")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if number & 1:  # a negative number in zigzag
        raise SchemaMismatchError(f"the message indexes in the {where} are incomplete or invalid.")
    return number >> 1, at
