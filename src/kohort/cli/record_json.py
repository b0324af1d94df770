"""Records as lines of JSON, without loss: bytes that are not UTF-8, repeated headers and tombstones.

Bytes are a string if they are UTF-8, else `{"base64": ...}`; null is null. Headers are a list of pairs
of name and bytes, in their order.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.errors import KohortError
from kohort.model import Millis

if TYPE_CHECKING:
    from kohort.client import ConsumerRecord

Header = tuple[str, bytes | None]

_SYNONYMS = {"payload": "value", "ts": "timestamp"}
"""Fields of kcat's JSON lines, by our names."""
_READ = ("key", "value", "headers", "timestamp", "partition")
_IGNORED = {"topic", "offset", "tstype", "broker"}
"""Fields about the place of a record that was read. The new record has a place of its own."""


class NewRecord(NamedTuple):
    """Record to write. The producer chooses a timestamp or partition of None."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    timestamp: Millis | None = None
    partition: int | None = None


class UnreadableLine(KohortError):
    """A line that is not a record. The message continues a sentence that begins with the line's number."""


def to_json(record: "ConsumerRecord") -> dict[str, Any]:
    """Return a record as a JSON object."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _as_json(record.key),
        "value": _as_json(record.value),
        "headers": [[name, _as_json(content)] for name, content in record.headers],
    }


def from_json(line: bytes) -> NewRecord:
    """Read a line of `kohort consume --json` or `kcat -J`, or one with fewer fields. Raises UnreadableLine.

    Headers may also be an object, or kcat's list of alternating names and values.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise UnreadableLine(f"is not JSON: {problem}") from None
    if not isinstance(fields, dict):
        raise UnreadableLine('is not a JSON object such as {"key": "a", "value": "1"}')
    fields = {_SYNONYMS.get(name, name): value for name, value in fields.items() if name not in _IGNORED}
    if unknown := sorted(fields.keys() - {*_READ}):
        raise UnreadableLine(f"has the field {unknown[0]!r}, but records have {', '.join(_READ)}")
    if "value" not in fields:
        raise UnreadableLine('has no "value"; that of a tombstone is null')
    timestamp = _number("timestamp", fields.get("timestamp"), least=-1)
    return NewRecord(
        _bytes("value", fields["value"]),
        _bytes("key", fields.get("key")),
        _headers(fields.get("headers")),
        None if timestamp == -1 else timestamp,  # -1 is Kafka's for a record without a timestamp
        _number("partition", fields.get("partition"), least=0),
    )


def _as_json(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _bytes(name: str, value: object) -> bytes | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, dict) and value.keys() == {"base64"}:
            return b64decode(value["base64"], validate=True)
    except (ValueError, TypeError) as problem:
        raise UnreadableLine(f'has a "{name}" that cannot be read: {problem}') from None
    raise UnreadableLine(f'has a "{name}" that is neither text, null nor {{"base64": ...}}')


def _headers(value: object) -> list[Header]:
    pairs: list[Any]
    match value:
        case None:
            pairs = []
        case dict():
            pairs = list(value.items())
        case [str(), *_] if len(value) % 2 == 0:
            pairs = list(zip(value[::2], value[1::2], strict=True))
        case list():
            pairs = value
        case _:
            pairs = [value]
    headers = []
    for pair in pairs:
        match pair:
            case [str(name), content]:
                headers.append(((_bytes("header", name) or b"").decode(), _bytes(f"header {name}", content)))
            case _:
                raise UnreadableLine('has "headers" that are not a list of [name, value] pairs')
    return headers


def _number(name: str, value: object, least: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UnreadableLine(f'has a "{name}" that is not a number of at least {least}')
    return value
