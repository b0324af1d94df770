"""Logs a failure that repeats itself once, and its end with the time that it took."""

import logging
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from math import inf

from kohort.errors import ErrorCode

_QUIET_S = 120.0
"""A failure after this many seconds without one is a new one. Longer than any request waits by default."""
NEVER = inf
_NAMED = 5
"""Subjects that a line names; it gives the number of the others."""


@dataclass(slots=True)
class _Failure:
    """What fails since when."""

    since: float
    last: float
    codes: set[ErrorCode] = field(default_factory=set)
    """The reasons that were logged. One that comes back is no news."""


class FailureLog:
    """One kind of failure of one client, of many subjects (partitions, a group).

    `failed` writes a warning for the subjects whose reason is new, and `succeeded` writes one when they are over.
    """

    def __init__(
        self, log: logging.Logger, clock: Callable[[], float], begins: str, ends: str, *, quiet_s: float = _QUIET_S
    ) -> None:
        self._log = log
        self._clock = clock
        self._begins = begins
        self._ends = ends
        self._quiet_s = quiet_s
        self._failing: dict[Hashable, _Failure] = {}

    def __bool__(self) -> bool:
        return bool(self._failing)

    def failed(self, subjects: Iterable[Hashable], code: ErrorCode, why: str) -> None:
        """Log the subjects for which this code is news. `why` says what it means and what to do."""
        now = self._clock()
        news = [subject for subject in subjects if self._is_news(subject, code, now)]
        if news:
            self._log.warning("%s: %s: %s (%s)", self._begins, _listed(news), why, code.name)

    def succeeded(self, subjects: Iterable[Hashable]) -> None:
        """Log the end of the failures of these subjects, if they have any."""
        if not self._failing:
            return
        over = {subject: failure for subject in subjects if (failure := self._failing.pop(subject, None)) is not None}
        if over:
            took = self._clock() - min(failure.since for failure in over.values())
            self._log.warning("%s after %.1f s: %s", self._ends, took, _listed(list(over)))

    def forget(self, subjects: Iterable[Hashable]) -> None:
        """Nobody asks for these any more."""
        for subject in subjects:
            self._failing.pop(subject, None)

    def _is_news(self, subject: Hashable, code: ErrorCode, now: float) -> bool:
        failure = self._failing.get(subject)
        if failure is None or now - failure.last > self._quiet_s:
            self._failing[subject] = failure = _Failure(now, now)
        failure.last = now
        if code in failure.codes:
            return False
        failure.codes.add(code)
        return True


def _listed(subjects: Collection[Hashable]) -> str:
    named = ", ".join(sorted(map(str, subjects))[:_NAMED])
    more = len(subjects) - _NAMED
    return f"{named} and {more} more" if more > 0 else named
