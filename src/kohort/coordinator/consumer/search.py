"""Looking up expressions among topics, in slices: a stranger may have chosen them to be slow."""

from collections.abc import Iterable

from kohort.coordinator.consumer.expressions import Resolution
from kohort.coordinator.consumer.metadata import MetadataImage
from kohort.coordinator.consumer.topics import ResolvedExpression
from kohort.model import Millis

SLICE = 5_000_000
"""Steps of one slice: 10 ms at the very worst, and enough for a plain expression among 10,000 topics."""


class Search:
    """One look-up of some expressions in one image of the topics."""

    def __init__(self, expressions: Iterable[str], image: MetadataImage) -> None:
        """The expressions passed `check`."""
        self.image = image
        self._waiting = list(expressions)
        self._current: tuple[str, Resolution] | None = None
        self._found: dict[str, frozenset[str]] = {}

    def go_on(self) -> bool:
        """Look on for one slice, or to the end of one expression; True when all are looked up."""
        if self._current is None:
            if not self._waiting:
                return True
            expression = self._waiting.pop()
            self._current = expression, Resolution(expression, self.image.matchable)
        expression, resolution = self._current
        if resolution.go_on(SLICE):
            self._found[expression] = resolution.found
            self._current = None
        return self._current is None and not self._waiting

    def found(self, now: Millis) -> dict[str, ResolvedExpression]:
        """What each expression matches; to be asked at the end."""
        assert self._current is None and not self._waiting
        version = self.image.version
        return {name: ResolvedExpression(topics, version, now) for name, topics in self._found.items()}
