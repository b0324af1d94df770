"""Requests with two of everything, made from the declarations of the messages."""

from typing import Any
from uuid import UUID

from kohort.wire.codec import ArrayOf, Message, Nested, Struct

NAMED = {"acks": 1, "session_epoch": -1, "session_id": 0, "key_type": 0, "resource_type": 2}
"""Values of fields that must be of a kind."""


def sample(kind: type[Struct], version: int, number: int = 0) -> Any:
    """A struct or a message whose fields have values that tell two of them apart."""
    return kind(
        **{
            field.name: NAMED.get(field.name, _value(field.type, field.name, version, number))
            for field in kind.FIELDS
            if field.exists(version) and field.tag is None
        }
    )


def sample_request(kind: type[Message], version: int) -> Any:
    return sample(kind, version)


def _value(wire: Any, name: str, version: int, number: int) -> Any:
    match wire:
        case ArrayOf(element=element):
            return [_value(element, name, version, 2 * number + each) for each in range(2)]
        case Nested(kind=kind):
            return sample(kind, version, number)
        case _ if type(wire).__name__ == "Text":
            return f"{name}-{number}"
        case _ if type(wire).__name__ == "Blob":
            return b""
        case _ if type(wire).__name__ == "UuidType":
            return UUID(int=number + 1)
        case _:
            return bool(number % 2) if wire.format == "?" else number
