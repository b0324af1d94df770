"""Base classes for serializers and deserializers of kafka-python."""

import json
from abc import ABC, abstractmethod
from typing import Any

Headers = list[tuple[str, bytes | None]]


class Serializer(ABC):
    """Serializer of keys or values."""

    @abstractmethod
    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Return the bytes that represent `data`."""

    def close(self) -> None:  # noqa: B027  to override it is optional
        """Release resources; the producer calls it when it closes."""


class Deserializer(ABC):
    """Deserializer of keys or values."""

    @abstractmethod
    def deserialize(self, topic: str, headers: Headers, data: bytes) -> Any:
        """Return what `data` represents."""

    def close(self) -> None:  # noqa: B027  to override it is optional
        """Release resources; the consumer calls it when it closes."""


class DefaultSerializer(Serializer, Deserializer):
    """Text in an encoding; bytes remain bytes when they are serialized."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        if data is None or isinstance(data, bytes | bytearray | memoryview):
            return data  # type: ignore[return-value]  # the producer takes any of them
        return str.encode(data, self.encoding)

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        return None if data is None else data.decode(self.encoding)

    def close(self) -> None:
        """Do nothing."""


class JsonSerializer(DefaultSerializer):
    """JSON in an encoding. None stays null."""

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        return None if data is None else json.dumps(data).encode(self.encoding)

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        return None if data is None else json.loads(data.decode(self.encoding))
