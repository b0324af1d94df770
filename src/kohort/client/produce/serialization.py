"""Application-defined serialization of keys and values."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from kohort.errors import ConfigError, KohortError
from kohort.wire.batches import Header


@runtime_checkable
class Serializer(Protocol):
    """Serializer that needs the record's topic or headers, as in Java and kafka-python.

    It may add headers to the list.
    """

    def serialize(self, topic: str, headers: list[Header], data: Any, /) -> bytes | None:
        """Return the bytes that represent the key or value `data`."""


AnySerializer = Serializer | Callable[[Any], bytes | None]


class SerializationError(KohortError):
    """Key or value that the application's serializer rejected. `__cause__` is its exception."""


class Serialization:
    """Key and value serializers of one producer. Any thread may use it."""

    def __init__(self, key: AnySerializer | None, value: AnySerializer | None) -> None:
        self._key = _function("key_serializer", key)
        self._value = _function("value_serializer", value)
        self.configured = self._key is not None or self._value is not None

    def __call__(
        self, topic: str, key: Any, value: Any, headers: Sequence[Header]
    ) -> tuple[bytes | None, bytes | None, list[Header]]:
        """Return the key and the value as bytes, and the headers; None stays None. Raises SerializationError."""
        listed = list(headers)
        if key is not None and self._key is not None:
            key = _applied(self._key, "key", topic, listed, key)
        if value is not None and self._value is not None:
            value = _applied(self._value, "value", topic, listed, value)
        return key, value, listed


_Function = Callable[[str, list[Header], Any], bytes | None]


def _applied(function: _Function, part: str, topic: str, headers: list[Header], data: Any) -> bytes | None:
    try:
        return function(topic, headers, data)
    except Exception as problem:
        kind = type(problem).__name__
        raise SerializationError(
            f"the {part} of a record for {topic}: {part}_serializer raised {kind}: {problem}."
        ) from problem


def _function(name: str, given: AnySerializer | None) -> _Function | None:
    if given is None:
        return None
    if isinstance(given, Serializer):
        return given.serialize
    if callable(given):
        return lambda topic, headers, data: given(data)
    raise ConfigError(f"{name} is {given!r}, but must be a function or an object with a method serialize.")
