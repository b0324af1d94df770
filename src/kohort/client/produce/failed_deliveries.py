"""Failed deliveries: tracking which ones the application has seen, and logging the rest."""

import asyncio
import atexit
import logging
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable

from kohort.client.failures import DeliveryFailedError
from kohort.errors import ErrorCode

_log = logging.getLogger(__name__)

_LOG_AFTER_S = 1.0
"""Time during which failures share a log line, in seconds.

A producer without a broker fails a batch every few milliseconds.
"""

_Dropped = tuple[str, int, Exception]
"""Topic, number of its failed records that the application has not seen, and the error."""


class Failure:
    """Failure of records of one topic.

    The deliveries of these records share it. When the last delivery is garbage collected, the
    failure reports the number of records whose error the application never retrieved.
    """

    __slots__ = ("__weakref__", "_on_dropped", "_reported", "_seen", "count", "error", "topic")

    def __init__(self, topic: str, count: int, error: Exception, on_dropped: Callable[[_Dropped], None]) -> None:
        self.topic, self.count, self.error = topic, count, error
        self._on_dropped = on_dropped
        self._seen: set[int] = set()
        self._reported = False

    @property
    def unseen(self) -> int:
        """Number of records whose error neither the application has retrieved nor `flush` has raised."""
        return 0 if self._reported else self.count - len(self._seen)

    def see(self, index: int) -> Exception:
        """Mark the record's failure as seen and return the error."""
        self._seen.add(index)
        return self.error

    def report(self) -> None:
        """Mark all records as seen, because the failure is reported in another way."""
        self._reported = True

    def __del__(self) -> None:
        if unseen := self.unseen:
            self._on_dropped((self.topic, unseen, self.error))


class Failures:
    """Failures of one producer, bound to the event loop in which it was created."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._live: weakref.WeakSet[Failure] = weakref.WeakSet()
        self._dropped: deque[_Dropped] = deque()
        """Failures of garbage-collected deliveries, appended from any thread."""
        self._to_log = FailureCounts()
        self._since_flush = FailureCounts()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._handed_over = False
        _all.add(self)

    def add(self, topic: str, count: int, error: Exception) -> Failure:
        """Create a failure for `count` records of a topic."""
        failure = Failure(topic, count, error, self._drop)
        if self._handed_over:
            failure.report()
        self._live.add(failure)
        return failure

    def hand_over(self) -> None:
        """Log the failures so far. The caller reports later ones."""
        self.log_all()
        self._handed_over = True

    def raise_unseen(self) -> None:
        """Raise DeliveryFailedError if deliveries failed unseen since the last call."""
        self._sort()
        unseen, self._since_flush = self._since_flush, FailureCounts()
        for failure in list(self._live):
            if failure.unseen:
                unseen.add(failure.topic, failure.unseen, failure.error)
                failure.report()
        if unseen.count:
            # Errors that `flush` raises are not logged again.
            self._to_log = FailureCounts()
            raise DeliveryFailedError(unseen.listed())

    def forget(self) -> None:
        """Mark all failures as seen, because the end of their transaction reports them."""
        self._sort()
        self._to_log = self._since_flush = FailureCounts()
        for failure in list(self._live):
            failure.report()

    def log_all(self) -> None:
        """Log all unseen failures at once, including those of deliveries that the application still holds.

        Called when the interpreter exits.
        """
        for failure in list(self._live):
            if failure.unseen:
                self._to_log.add(failure.topic, failure.unseen, failure.error)
                failure.report()
        self._log()

    def close(self) -> None:
        """Log pending failures, and log later ones immediately."""
        self._closed = True
        self._log()

    def _drop(self, dropped: _Dropped) -> None:
        self._dropped.append(dropped)
        if not self._closed:
            try:
                self._loop.call_soon_threadsafe(self._log_later)
                return
            except RuntimeError:
                pass  # the loop is closed
        self._log()

    def _log_later(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(_LOG_AFTER_S, self._log)

    def _sort(self) -> None:
        while self._dropped:
            topic, count, error = self._dropped.popleft()
            self._to_log.add(topic, count, error)
            self._since_flush.add(topic, count, error)

    def _log(self) -> None:
        self._timer = None
        self._sort()
        lost, self._to_log = self._to_log, FailureCounts()
        for topic, count, error in lost.listed():
            records = "record was" if count == 1 else "records were"
            _log.error(
                "%d %s not written, and the application did not check the result: topic=%s %s",
                count,
                records,
                topic,
                error,
            )


_all: weakref.WeakSet[Failures] = weakref.WeakSet()


@atexit.register
def _log_all() -> None:
    for failures in list(_all):
        failures.log_all()


os.register_at_fork(after_in_child=_all.clear)


class FailureCounts:
    """Numbers of failed records by topic and reason, each with the first error."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, ErrorCode | None, type], _Dropped] = {}

    @property
    def count(self) -> int:
        """Total number of records."""
        return sum(count for _, count, _ in self._found.values())

    def add(self, topic: str, count: int, error: Exception) -> None:
        """Add failed records."""
        key = (topic, getattr(error, "code", None), type(error))
        before = self._found.get(key)
        self._found[key] = (topic, count, error) if before is None else (topic, count + before[1], before[2])

    def listed(self) -> Iterable[_Dropped]:
        """Return one entry per topic and reason."""
        return tuple(self._found.values())
