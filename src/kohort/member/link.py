"""The connection to the coordinator: whether it is known, and the backoff before the next attempt."""

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
"""Errors after which the member looks up the coordinator again before it retries."""

_MAX_DOUBLINGS = 16


class CoordinatorLink:
    """State of the coordinator look-up, with exponential backoff over consecutive failures of any kind."""

    def __init__(self, retry_backoff_ms: Millis, retry_backoff_max_ms: Millis) -> None:
        self.known = False
        self.finding = False
        """Whether a look-up is in progress."""
        self.retry_at: Millis = 0
        self._backoff_ms = retry_backoff_ms
        self._backoff_max_ms = retry_backoff_max_ms
        self._failures = 0

    def found(self) -> None:
        """Record a successful look-up. Only a response will show whether the coordinator is right."""
        self.known, self.finding = True, False

    def back_off(self, now: Millis) -> None:
        """Delay the next attempt after a failure that may be temporary."""
        delay = self._backoff_ms * 2 ** min(self._failures, _MAX_DOUBLINGS)
        self._failures += 1
        self.retry_at = now + min(delay, self._backoff_max_ms)

    def progressed(self, now: Millis) -> None:
        """Reset the backoff after a good response."""
        self._failures = 0
        self.retry_at = now

    def ready(self, now: Millis) -> bool:
        """Return whether a request may be sent."""
        return self.known and now >= self.retry_at

    def must_be_found(self, now: Millis) -> bool:
        """Return whether a look-up may start."""
        return not self.known and not self.finding and now >= self.retry_at
