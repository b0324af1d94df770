"""Match expressions against topic names in slices, because a client may send a deliberately slow expression."""

from collections.abc import Iterable

from kohort.coordinator.consumer.expressions import Resolution
from kohort.coordinator.consumer.topics import ResolvedExpression
from kohort.coordinator.topic_metadata import MetadataImage
from kohort.model import Millis

SLICE = 5_000_000
"""Number of steps in one slice.

A slice takes 10 ms in the worst case, and is enough for a simple expression among 10,000 topics.
"""


class ExpressionSearch:
    """A search for the topics that several expressions match in one metadata image."""

    def __init__(self, expressions: Iterable[str], image: MetadataImage) -> None:
        """Prepare the search for one or more expressions. Each must have passed `check`."""
        self.image = image
        self._waiting = list(expressions)
        self._current: tuple[str, Resolution] | None = None
        self._found: dict[str, frozenset[str]] = {}

    def proceed(self) -> bool:
        """Search for one slice, or to the end of one expression; return True when the search is complete.

        Do not call this again after that.
        """
        if self._current is None:
            expression = self._waiting.pop()
            self._current = expression, Resolution(expression, self.image.matchable)
        expression, resolution = self._current
        if resolution.proceed(SLICE):
            self._found[expression] = resolution.found
            self._current = None
        return self._current is None and not self._waiting

    def found(self, now: Millis) -> dict[str, ResolvedExpression]:
        """Return the topics that each expression matches. The search must be complete."""
        assert self._current is None and not self._waiting
        version = self.image.version
        return {name: ResolvedExpression(topics, version, now) for name, topics in self._found.items()}
