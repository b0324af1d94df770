"""Logging of repeated failures: one line when a failure starts, one with its duration when it ends."""

import logging
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from math import inf

from kohort.errors import ErrorCode

_QUIET_S = 120.0
"""Time without failures after which a failure counts as new, in seconds.

It exceeds the default timeout of every request.
"""
NEVER = inf
_NAMED = 5
"""Number of subjects that a log line lists; it gives only the number of the others."""


@dataclass(slots=True)
class _Failure:
    """Ongoing failure of one subject."""

    since: float
    last: float
    codes: set[ErrorCode] = field(default_factory=set)
    """Errors that were logged already; a recurrence is not logged."""


class FailureLog:
    """Log of one kind of failure of one client, for many subjects (partitions, a group).

    `failed` logs a warning for the subjects with a new error, and `succeeded` logs one when their
    failures end.
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
        """Log the subjects for which this error is new. `why` explains its meaning and what to do."""
        now = self._clock()
        news = [subject for subject in subjects if self._is_new(subject, code, now)]
        if news:
            self._log.warning("%s: %s: %s (%s)", self._begins, joined_names(news), why, code.name)

    def succeeded(self, subjects: Iterable[Hashable]) -> None:
        """Log the end of the failures of these subjects, if they have any."""
        if not self._failing:
            return
        over = {subject: failure for subject in subjects if (failure := self._failing.pop(subject, None)) is not None}
        if over:
            took = self._clock() - min(failure.since for failure in over.values())
            self._log.warning("%s after %.1f s: %s", self._ends, took, joined_names(list(over)))

    def forget(self, subjects: Iterable[Hashable]) -> None:
        """Discard the failures of subjects that are no longer used."""
        for subject in subjects:
            self._failing.pop(subject, None)

    def _is_new(self, subject: Hashable, code: ErrorCode, now: float) -> bool:
        failure = self._failing.get(subject)
        if failure is None or now - failure.last > self._quiet_s:
            self._failing[subject] = failure = _Failure(now, now)
        failure.last = now
        if code in failure.codes:
            return False
        failure.codes.add(code)
        return True


def joined_names(subjects: Collection[Hashable]) -> str:
    """Return some of the subjects by name, and the number of the others."""
    named = ", ".join(sorted(map(str, subjects))[:_NAMED])
    more = len(subjects) - _NAMED
    return f"{named} and {more} more" if more > 0 else named
