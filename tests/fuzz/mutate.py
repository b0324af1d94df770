"""Our own mutator: a few changes at a time, of the kind that decoders of lengths and numbers stumble over."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random

MOST_BYTES = 1 << 16

_BITS = (0, 1, 7, 8, 15, 16, 31, 32, 63, 64)
_NUMBERS = (2, 3, *(2**bits - 1 for bits in _BITS), *(2**bits for bits in _BITS[:-1]))
_VARINTS = (
    *(b"\x80\x01", b"\xff\x7f", b"\xff\xff\x03"),
    *(b"\xff\xff\xff\xff\x07", b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f"),
    *(b"\x80" * 9 + b"\x01", b"\xfe" + b"\xff" * 8 + b"\x01", b"\xff" * 9 + b"\x01"),
)
"""The largest of five bytes and of ten, also where the lowest bit is a sign."""
_FORMS = (">B", ">H", ">I", ">Q", "<I", "<Q")


def mutated(data: bytes, dice: Random, others: Sequence[bytes]) -> bytes:
    """`data` with one to six changes; `others` lend their parts."""
    changed = bytearray(data)
    while True:
        dice.choice(_CHANGES)(changed, dice, others)
        if dice.random() < 0.4:
            return bytes(changed[:MOST_BYTES])


def _place(data: bytearray, dice: Random) -> int:
    return dice.randrange(len(data) + 1)


def _span(data: bytearray, dice: Random, most: int = 64) -> slice:
    start = _place(data, dice)
    return slice(start, start + dice.randrange(1, most))


def _flip(data: bytearray, dice: Random, others: Sequence[bytes]) -> None:
    if data:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _any_byte(data: bytearray, dice: Random, others: Sequence[bytes]) -> None:
    if data:
        data[dice.randrange(len(data))] = dice.randrange(256)


def _number(data: bytearray, dice: Random, others: Sequence[bytes]) -> None:
    """A number at the edge of its type, over what is there."""
    form = dice.choice(_FORMS)
    size = struct.calcsize(form)
    at = _place(data, dice)
    data[at : at + size] = struct.pack(form, dice.choice(_NUMBERS) & (1 << 8 * size) - 1)


def _near(data: bytearray, dice: Random, others: Sequence[bytes]) -> None:
    """Change bytes that may be a length, a little up or down."""
    size = dice.choice((1, 2, 4))
    if len(data) >= size:
        at = dice.randrange(len(data) - size + 1)
        number = int.from_bytes(data[at : at + size], "big") + dice.randrange(-20, 21)
        data[at : at + size] = (number & (1 << 8 * size) - 1).to_bytes(size, "big")


def _varint(data: bytearray, dice: Random, others: Sequence[bytes]) -> None:
    at = _place(data, dice)
    data[at : at + 1] = dice.choice(_VARINTS)


def _insert(data: bytearray, dice: Random, others: Sequence[bytes]) -> None:
    at = _place(data, dice)
    data[at:at] = dice.randbytes(dice.randrange(1, 9))


def _delete(data: bytearray, dice: Random, others: Sequence[bytes]) -> None:
    del data[_span(data, dice)]


def _double(data: bytearray, dice: Random, others: Sequence[bytes]) -> None:
    span = _span(data, dice)
    data[span.start : span.start] = data[span]


def _many(data: bytearray, dice: Random, others: Sequence[bytes]) -> None:
    """A part over and over, to see whether what it becomes grows with it or faster."""
    span = _span(data, dice, 24)
    data[span.start : span.start] = data[span] * dice.choice((10, 100, 1_000))
    del data[MOST_BYTES:]


def _cut(data: bytearray, dice: Random, others: Sequence[bytes]) -> None:
    del data[_place(data, dice) :]


def _borrow(data: bytearray, dice: Random, others: Sequence[bytes]) -> None:
    """A part of another input, over what is there or between it."""
    other = dice.choice(others) if others else b""
    start = dice.randrange(len(other) + 1)
    part = other[start : start + dice.randrange(1, 200)]
    at = _place(data, dice)
    data[at : at + dice.choice((0, len(part)))] = part


_CHANGES: tuple[Callable[[bytearray, Random, Sequence[bytes]], None], ...] = (
    *(_flip, _any_byte, _number, _near) * 2,
    *(_varint, _insert, _delete, _double, _many, _cut, _borrow),
)
