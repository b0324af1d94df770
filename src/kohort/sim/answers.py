"""Every answer on the wire, decoded once more for its error codes (S14): the coordinator's, and those of the shell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from struct import Struct as Packer
from typing import Any

from kohort.errors import ErrorCode
from kohort.sim.end import End
from kohort.sim.error_codes import is_allowed
from kohort.sim.violation import Violation
from kohort.wire.api import APIS
from kohort.wire.codec import Struct, decode
from kohort.wire.header import read_response_header

_KNOWN = 4_096
"""Answers whose codes are remembered: most are the same bytes as another before."""

Answered = tuple[str, ErrorCode]
"""A request's name and what it was answered."""

_JOIN_GROUP = 11
_SIZE = Packer(">i")
_HEAD = Packer(">hhi")


class Answers:
    """Listens to all connections of a world, and checks each answer's error codes (S14)."""

    def __init__(self, failed: Callable[[Violation], None]) -> None:
        self.codes: Counter[Answered] = Counter()
        self.outdone: set[str] = set()
        """Processes that had given up a connection on which a JoinGroup of theirs arrived afterwards."""
        self._failed = failed
        self._asked: dict[tuple[int, int], tuple[int, int]] = {}
        self._rest: dict[int, bytes] = {}

    def take(self, end: End, data: bytes) -> None:
        """Bytes arrived at that end."""
        number = end.number
        for frame in frames(self._rest, number, data):
            if number % 2:
                key, version, correlation_id = _HEAD.unpack_from(frame)
                self._asked[number, correlation_id] = key, version
                if key == _JOIN_GROUP and end.other.is_closing():
                    self.outdone.add(end.other.loop.name)
                continue
            (correlation_id,) = _SIZE.unpack_from(frame)
            key, version = self._asked.pop((number + 1, correlation_id))
            for one in _answered(key, version, frame[_SIZE.size :]):
                if one not in self.codes and not is_allowed(*one):
                    name, code = one
                    self._failed(Violation("S14", f"{end.other.loop.name} answered {name} with {code.name}"))
                self.codes[one] += 1


@lru_cache(_KNOWN)
def _answered(key: int, version: int, answer: bytes) -> tuple[Answered, ...]:
    """The codes of an answer, from behind its correlation id."""
    if key not in APIS:
        return ()
    _, body = read_response_header(_NUMBER + answer, key, version)
    codes = codes_of(decode(APIS[key].response, version, (_NUMBER + answer)[body:]))
    return tuple((APIS[key].name, ErrorCode(code)) for code in codes)


_NUMBER = bytes(_SIZE.size)


def frames(rest: dict[int, bytes], number: int, data: bytes) -> Iterable[bytes]:
    """The whole frames that have arrived on a connection; `rest` keeps what is left of it."""
    if number in rest:
        data = rest.pop(number) + data
    elif len(data) >= _SIZE.size and _SIZE.unpack_from(data)[0] == len(data) - _SIZE.size:
        return (data[_SIZE.size :],)  # nearly always
    return _cut(rest, number, data)


def _cut(rest: dict[int, bytes], number: int, data: bytes) -> Iterator[bytes]:
    while len(data) >= _SIZE.size:
        (size,) = _SIZE.unpack_from(data)
        if size < 0 or len(data) < _SIZE.size + size:
            break
        yield data[_SIZE.size : _SIZE.size + size]
        data = data[_SIZE.size + size :]
    if data:
        rest[number] = data


def codes_of(value: Any) -> Iterator[int]:
    """Every error code in a message, however deep."""
    for field in value.FIELDS:
        part = getattr(value, field.name)
        if field.name == "error_code":
            yield part
        elif isinstance(part, Struct):
            yield from codes_of(part)
        elif isinstance(part, list) and part and isinstance(part[0], Struct):
            for one in part:
                yield from codes_of(one)
