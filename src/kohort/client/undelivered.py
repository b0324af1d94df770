"""Deliveries that failed: which of them the application has seen, and a log line for the rest."""

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
"""Failures of that time share a log line: a producer without a broker fails a batch every few milliseconds."""

_Dropped = tuple[str, int, Exception]
"""A topic, how many of its records failed unseen, and why."""


class Failure:
    """Why records of one topic were not written. Their deliveries share it; when the last of them is garbage, it
    reports how many the application never looked at."""

    __slots__ = ("__weakref__", "_on_dropped", "_reported", "_seen", "count", "error", "topic")

    def __init__(self, topic: str, count: int, error: Exception, on_dropped: Callable[[_Dropped], None]) -> None:
        self.topic, self.count, self.error = topic, count, error
        self._on_dropped = on_dropped
        self._seen: set[int] = set()
        self._reported = False

    @property
    def unseen(self) -> int:
        """Number of records whose failure nobody has looked at, and `flush` has not raised."""
        return 0 if self._reported else self.count - len(self._seen)

    def see(self, index: int) -> Exception:
        """The error, which the application gets for that record."""
        self._seen.add(index)
        return self.error

    def report(self) -> None:
        """Count as seen: another way of telling the application was found."""
        self._reported = True

    def __del__(self) -> None:
        if unseen := self.unseen:
            self._on_dropped((self.topic, unseen, self.error))


class Failures:
    """Failures of one producer. Belongs to the event loop in which it was made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._live: weakref.WeakSet[Failure] = weakref.WeakSet()
        self._dropped: deque[_Dropped] = deque()
        """From any thread: garbage is collected where it is found."""
        self._to_log = Tally()
        self._since_flush = Tally()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._handed_over = False
        _all.add(self)

    def add(self, topic: str, count: int, error: Exception) -> Failure:
        """Some records will not be written."""
        failure = Failure(topic, count, error, self._drop)
        if self._handed_over:
            failure.report()
        self._live.add(failure)
        return failure

    def hand_over(self) -> None:
        """Log what there is; the caller reports what fails from now on."""
        self.log_all()
        self._handed_over = True

    def raise_unseen(self) -> None:
        """Raise DeliveryFailedError if deliveries failed since the last call and nobody looked at them."""
        self._sort()
        unseen, self._since_flush = self._since_flush, Tally()
        for failure in list(self._live):
            if failure.unseen:
                unseen.add(failure.topic, failure.unseen, failure.error)
                failure.report()
        if unseen.count:
            # What `flush` raises need not be logged as well.
            self._to_log = Tally()
            raise DeliveryFailedError(unseen.listed())

    def log_all(self) -> None:
        """Log at once what nobody looked at, also what the application still holds: the interpreter ends."""
        for failure in list(self._live):
            if failure.unseen:
                self._to_log.add(failure.topic, failure.unseen, failure.error)
                failure.report()
        self._log()

    def close(self) -> None:
        """From now on log at once."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
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
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_later(_LOG_AFTER_S, self._log)

    def _sort(self) -> None:
        while self._dropped:
            topic, count, error = self._dropped.popleft()
            self._to_log.add(topic, count, error)
            self._since_flush.add(topic, count, error)

    def _log(self) -> None:
        self._timer = None
        self._sort()
        lost, self._to_log = self._to_log, Tally()
        for topic, count, error in lost.listed():
            records = "record was" if count == 1 else "records were"
            _log.error("%d %s not written, and nobody looked at the result: topic=%s %s", count, records, topic, error)


_all: weakref.WeakSet[Failures] = weakref.WeakSet()


@atexit.register
def _log_all() -> None:
    for failures in list(_all):
        failures.log_all()


os.register_at_fork(after_in_child=_all.clear)


class Tally:
    """Numbers of failed records by topic and reason, each with its first error."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, ErrorCode | None, type], _Dropped] = {}

    @property
    def count(self) -> int:
        """Number of records."""
        return sum(count for _, count, _ in self._found.values())

    def add(self, topic: str, count: int, error: Exception) -> None:
        """Some more."""
        key = (topic, getattr(error, "code", None), type(error))
        before = self._found.get(key)
        self._found[key] = (topic, count, error) if before is None else (topic, count + before[1], before[2])

    def listed(self) -> Iterable[_Dropped]:
        """By topic and reason."""
        return tuple(self._found.values())
