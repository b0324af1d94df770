"""The way to the coordinator: known or not, and how long to wait before the next try."""

from kohort.errors import ErrorCode
from kohort.model import Millis

COORDINATOR_GONE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Look for another coordinator before asking again."""

_MOST_DOUBLINGS = 16


class CoordinatorLink:
    """Backs off exponentially over failures in a row, whatever they were; one good answer ends that."""

    def __init__(self, retry_backoff_ms: Millis, retry_backoff_max_ms: Millis) -> None:
        self.known = False
        self.finding = False
        """A look-up is under way."""
        self.retry_at: Millis = 0
        self._first = retry_backoff_ms
        self._longest = retry_backoff_max_ms
        self._failures = 0

    def found(self) -> None:
        """The look-up succeeded. Only an answer will show that it is the right one."""
        self.known, self.finding = True, False

    def back_off(self, now: Millis) -> None:
        """Something failed that may succeed later."""
        delay = self._first * 2 ** min(self._failures, _MOST_DOUBLINGS)
        self._failures += 1
        self.retry_at = now + min(delay, self._longest)

    def progressed(self, now: Millis) -> None:
        """The coordinator answered as it should."""
        self._failures = 0
        self.retry_at = now

    def ready(self, now: Millis) -> bool:
        """Whether a request may go out."""
        return self.known and now >= self.retry_at

    def must_be_found(self, now: Millis) -> bool:
        """Whether a look-up may start."""
        return not self.known and not self.finding and now >= self.retry_at
