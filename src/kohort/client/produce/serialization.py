"""Application-defined serialization of keys and values."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from kohort.errors import ConfigError, KohortError
from kohort.loading import LoadRequired, Part, bound, sentence
from kohort.wire.batches import Header


@runtime_checkable
class Serializer(Protocol):
    """Serializer that needs the record's topic or headers, as in Java and kafka-python.

    It may add headers to the list. If it also has a method `for_part`, the producer calls it with
    "key" or "value", and uses the serializer that it returns.
    """

    def serialize(self, topic: str, headers: list[Header], data: Any, /) -> bytes | None:
        """Return the bytes that represent the key or value `data`."""


AnySerializer = Serializer | Callable[[Any], bytes | None]


class SerializationError(KohortError):
    """Key or value that the application's serializer rejected.

    `__cause__` is its exception. If that is retriable, so is this error.
    """

    @property
    def retriable(self) -> bool:
        return isinstance(self.__cause__, KohortError) and self.__cause__.retriable


class SendNeedsLoad(LoadRequired):
    """Load that a record needs before it can be serialized."""

    def __init__(self, topic: str, part: Part, needed: LoadRequired) -> None:
        super().__init__(self._load)
        self._topic = topic
        self._part = part
        self._needed = needed

    def _load(self) -> None:
        """Load. Raises SerializationError."""
        try:
            self._needed.load()
        except Exception as problem:
            raise _rejected(self._topic, self._part, problem) from problem


class Serialization:
    """Key and value serializers of one producer. Any thread may use it."""

    def __init__(self, key: AnySerializer | None, value: AnySerializer | None) -> None:
        self._key = _function("key", key)
        self._value = _function("value", value)
        self.configured = self._key is not None or self._value is not None

    def __call__(
        self, topic: str, key: Any, value: Any, headers: Sequence[Header]
    ) -> tuple[bytes | None, bytes | None, list[Header]]:
        """Return the key and the value as bytes, and the headers; None stays None.

        Raises SerializationError, or SendNeedsLoad: then load, and call it again.
        """
        listed = list(headers)
        if key is not None and self._key is not None:
            key = _applied(self._key, "key", topic, listed, key)
        if value is not None and self._value is not None:
            value = _applied(self._value, "value", topic, listed, value)
        return key, value, listed


_Function = Callable[[str, list[Header], Any], bytes | None]


def _applied(function: _Function, part: Part, topic: str, headers: list[Header], data: Any) -> bytes | None:
    try:
        return function(topic, headers, data)
    except LoadRequired as needed:
        raise SendNeedsLoad(topic, part, needed) from None
    except Exception as problem:
        raise _rejected(topic, part, problem) from problem


def _rejected(topic: str, part: Part, problem: Exception) -> SerializationError:
    return SerializationError(f"the {part} of a record for {topic}: {part}_serializer raised {sentence(problem)}.")


def _function(part: Part, given: AnySerializer | None) -> _Function | None:
    if given is None:
        return None
    given = bound(given, part)
    if isinstance(given, Serializer):
        return given.serialize
    if callable(given):
        return lambda topic, headers, data: given(data)
    raise ConfigError(f"{part}_serializer is {given!r}, but must be a function or an object with a method serialize.")
