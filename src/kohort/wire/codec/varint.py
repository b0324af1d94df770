"""Unsigned varints and tagged fields (KIP-482): the functions that compiled code calls."""

from collections.abc import Iterable

from kohort.errors import KohortError

__all__ = ["DecodeError", "EncodeError", "read_varint", "skip_tags", "varint", "write_tags"]


class DecodeError(KohortError):
    """Bytes from a peer that are not a valid message of the specified version."""


class EncodeError(AssertionError):
    """A message that its version cannot represent: a bug of ours, not of a peer."""


def read_varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes; return it and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise DecodeError("a varint is longer than five bytes")


def varint(value: int) -> bytes:
    """Encode `value` as an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(data: bytes | bytearray, position: int) -> int:
    """Skip unknown tagged fields, and return the position after them. `position` is that of their count."""
    count, position = read_varint(data, position)
    # Each tagged field takes at least two bytes, so a malicious count ends at the end of the data.
    for _ in range(count):
        _tag, position = read_varint(data, position)
        size, position = read_varint(data, position)
        position += size
    return position


def write_tags(fields: Iterable[tuple[int, bytes]]) -> bytes:
    """Encode tagged fields, which are ordered by tag, with their count in front."""
    fields = list(fields)
    if len(fields) == 1:
        ((tag, body),) = fields
        if tag < 0x80 and len(body) < 0x80:
            return bytes((1, tag, len(body))) + body
    return varint(len(fields)) + b"".join(varint(tag) + varint(len(body)) + body for tag, body in fields)
