"""Text of the last events in Kafka's terms: frames are decoded again for the analysis of a failed seed."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct as Packer
from struct import error as PackingError
from typing import Any

from kohort.errors import ErrorCode
from kohort.sim.checks.answers import frames
from kohort.sim.environment import Transport
from kohort.wire.api import APIS, read_request_header, read_response_header
from kohort.wire.codec import DecodeError, Struct, decode
from kohort.wire.messages.consumer_protocol import decode_assignment, decode_subscription

Arrival = tuple[float, Transport | str, bytes]
_SIZE = Packer(">i")
_QUIET = frozenset({"ApiVersions"})


def in_words(arrivals: Iterable[Arrival], last: int) -> list[str]:
    """Return the last events, one line each: time, sender, receiver, and message."""
    lines: list[str] = []
    asked: dict[tuple[int, int], tuple[int, int]] = {}
    rest: dict[int, bytes] = {}
    for at, end, data in arrivals:
        if isinstance(end, str):
            lines.append(f"{at:9.3f}  ** {end}")
            continue
        for frame in frames(rest, end.number, data):
            said = _said(end, frame, asked)
            if said:
                lines.append(f"{at:9.3f}  {end.other.loop.name} > {end.loop.name}: {said}")
    return lines[-last:]


def _said(end: Transport, frame: bytes, asked: dict[tuple[int, int], tuple[int, int]]) -> str:
    try:
        if end.number % 2:
            header = read_request_header(frame)
            api = APIS.get(header.api_key)
            asked[end.number, header.correlation_id] = header.api_key, header.api_version
            if api is None or api.name in _QUIET:
                return ""
            return f"{api.name} {_fields(decode(api.request, header.api_version, frame[header.body :]))}"
        (correlation_id,) = _SIZE.unpack_from(frame)
        if (end.number + 1, correlation_id) not in asked:
            return "an answer to what was asked before this history begins"
        key, version = asked[end.number + 1, correlation_id]
        _, body = read_response_header(frame, key, version)
        if APIS[key].name in _QUIET:
            return ""
        return f"{APIS[key].name} answer {_fields(decode(APIS[key].response, version, frame[body:]))}"
    except (DecodeError, IndexError, PackingError):
        return f"{len(frame)} bytes that begin before this history"


def _fields(value: Any) -> str:
    """Return the fields of a message that differ from their defaults."""
    words = []
    for field in value.FIELDS:
        part = getattr(value, field.name)
        if part in (None, "", [], 0, -1, b"") or field.name in ("throttle_time_ms", "protocol_type"):
            continue
        words.append(f"{field.name}={_word(field.name, part)}")
    return " ".join(words)


def _word(name: str, part: Any) -> str:
    if name == "error_code":
        return ErrorCode(part).name
    if isinstance(part, bytes | bytearray | memoryview):
        return _embedded(name, bytes(part))
    if isinstance(part, list):
        return f"[{', '.join(_word(name, element) for element in part)}]"
    if isinstance(part, Struct):
        return f"({_fields(part)})"
    return str(part)


def _embedded(name: str, data: bytes) -> str:
    try:
        if name == "assignment":
            return ",".join(map(str, sorted(decode_assignment(data).partitions))) or "-"
        said = decode_subscription(data)
        owned = ",".join(map(str, sorted(said.owned_partitions)))
        return f"{','.join(said.topics)}{' owns ' + owned if owned else ''}"
    except DecodeError:
        return f"{len(data)} bytes"
