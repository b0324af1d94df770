"""Unsigned varints and tagged fields (KIP-482): the parts that compiled code calls instead of containing them."""

from collections.abc import Iterable

from kohort.errors import KohortError

__all__ = ["DecodeError", "EncodeError", "read_varint", "skip_tags", "varint", "write_tags"]


class DecodeError(KohortError):
    """A peer sent bytes that are not a message of the version that it named."""


class EncodeError(AssertionError):
    """The caller filled a message with what its version cannot carry: our bug, not a peer's."""


def read_varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes, and where it ends."""
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
    """The unsigned varint of `value`."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(data: bytes | bytearray, position: int) -> int:
    """Step over tagged fields that nobody here knows; `position` is that of their number."""
    count, position = read_varint(data, position)
    # Each takes two bytes at least, so a hostile number ends at the end of the data.
    for _ in range(count):
        _tag, position = read_varint(data, position)
        size, position = read_varint(data, position)
        position += size
    return position


def write_tags(fields: Iterable[tuple[int, bytes]]) -> bytes:
    """Tagged fields in the order of their tags, their number first."""
    fields = list(fields)
    if len(fields) == 1:
        ((tag, body),) = fields
        if tag < 0x80 and len(body) < 0x80:
            return bytes((1, tag, len(body))) + body
    return varint(len(fields)) + b"".join(varint(tag) + varint(len(body)) + body for tag, body in fields)
