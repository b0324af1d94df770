"""Serializers and deserializers that must load something, such as a schema, before they convert data."""

from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

Part = Literal["key", "value"]
"""Part of a record that a serializer or deserializer converts."""


class LoadRequired(Exception):
    """Raised by a serializer or deserializer that must load something before it can convert this data.

    `load` does so, and may block. The client calls it outside of its event loop, and then converts
    the data again.
    """

    def __init__(self, load: Callable[[], object]) -> None:
        super().__init__("something must be loaded first: call `load`, and convert the data again")
        self.load = load


@runtime_checkable
class ForPart(Protocol):
    """Serializer or deserializer that must know whether it converts keys or values."""

    def for_part(self, part: Part, /) -> Any:
        """Return the object that converts this part of records."""


def bound(given: Any, part: Part) -> Any:
    """Return what converts this part of records: the given object, unless it has a method `for_part`."""
    return given.for_part(part) if isinstance(given, ForPart) else given


def sentence(problem: Exception) -> str:
    """Return the text of an application's exception, to be used inside of a sentence."""
    return f"{type(problem).__name__}: {problem}".removesuffix(".")
