"""Requests as a broker decodes them, responses as a client does, and seeds of every API in every version."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from kohort.model import UUID
from kohort.wire.api import APIS, read_request_header, read_response_header, request_header, response_header
from kohort.wire.codec import DecodeError, Message, decoder, encode
from kohort.wire.codec.schema import ArrayOf, Blob, Field, Fixed, Nested, Text, UuidType, WireType
from tests.fuzz.frames import read_frames
from tests.fuzz.rules import Target

RECORDED = Path(__file__).parent / "frames.bin"
_TEXTS = ("", "a", "topic", "group-1", "é", "\udcff", "x" * 200, "consumer", "range")
_PLACE = struct.Struct(">hh")


def run_request(data: bytes) -> Message:
    """A frame without its size, as a broker takes it."""
    header = read_request_header(data)
    api = APIS.get(header.api_key)
    if api is None:
        raise DecodeError("no such API")
    message: Message = decoder(api.request, header.api_version)(data, header.body)[0]
    return message


def request_agrees(data: bytes, value: object) -> None:
    """A decoded message can be encoded, and decodes to the same message."""
    _, version = _PLACE.unpack_from(data)
    _both_ways(value, version)


def run_response(data: bytes) -> Message:
    """API and version, which a client knows from its request, and then a frame without its size."""
    if len(data) < _PLACE.size:
        raise DecodeError("no API")
    key, version = _PLACE.unpack_from(data)
    api = APIS.get(key)
    if api is None or not api.min_version <= version <= api.max_version:
        raise DecodeError("no such API")
    frame = data[_PLACE.size :]
    _, body = read_response_header(frame, key, version)
    message: Message = decoder(api.response, version)(frame, body)[0]
    return message


def response_agrees(data: bytes, value: object) -> None:
    """As of requests."""
    _, version = _PLACE.unpack_from(data)
    _both_ways(value, version)


def _both_ways(message: object, version: int) -> None:
    assert isinstance(message, Message)
    again = encode(message, version)
    assert encode(decoder(type(message), version)(again, 0)[0], version) == again, "decoding loses what encoding wrote"


def filled(kind: type[Any], version: int, dice: Random) -> Any:
    """A struct whose fields are at random what that version can carry."""
    made = kind()
    for field in kind.FIELDS:
        if field.exists(version) and (field.tag is None or dice.random() < 0.5):
            setattr(made, field.name, _value(field.type, field, version, dice))
    return made


def _value(kind: WireType, field: Field | None, version: int, dice: Random) -> object:
    if field is not None and field.may_be_null(version) and dice.random() < 0.2:
        return None
    match kind:
        case ArrayOf(element=element):
            return [_value(element, None, version, dice) for _ in range(dice.choice((0, 1, 2, 3, 9)))]
        case Nested(kind=nested):
            return filled(nested, version, dice)
        case Text():
            return dice.choice(_TEXTS)
        case UuidType():
            return UUID(int=dice.getrandbits(128))
        case Blob():
            return dice.randbytes(dice.choice((0, 3, 70)))
        case Fixed(format="?"):
            return dice.random() < 0.5
        case Fixed(format="d"):
            return dice.random()
        case Fixed(format=letter, size=size):
            number = dice.choice((0, 1, 3, dice.getrandbits(8 * size - 1)))
            return number if letter.isupper() or dice.random() < 0.8 else -number


def _seeds_of(kind: type[Message], version: int, dice: Random) -> list[bytes]:
    return [encode(kind(), version), *(encode(filled(kind, version, dice), version) for _ in range(2))]


@cache
def request_seeds() -> list[bytes]:
    """Recorded ones, and made ones of every API and version."""
    dice = Random(0)
    return [frame for is_request, frame in read_frames(RECORDED) if is_request] + [
        request_header(api.key, version, 7, "fuzz") + body
        for api in APIS.values()
        for version in range(api.min_version, api.max_version + 1)
        for body in _seeds_of(api.request, version, dice)
    ]


@cache
def response_seeds() -> list[bytes]:
    """Recorded ones, and made ones of every API and version."""
    dice = Random(1)
    return [frame for is_request, frame in read_frames(RECORDED) if not is_request] + [
        _PLACE.pack(api.key, version) + response_header(api.key, version, 7) + body
        for api in APIS.values()
        for version in range(api.min_version, api.max_version + 1)
        for body in _seeds_of(api.response, version, dice)
    ]


TARGETS = (
    Target("request", run_request, (DecodeError,), request_seeds, request_agrees),
    Target("response", run_response, (DecodeError,), response_seeds, response_agrees),
)
