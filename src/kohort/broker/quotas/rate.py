"""The rate of a client's traffic, and the time for which a client above its limit must pause. Pure.

The arithmetic is that of Apache Kafka, so that clients are throttled equally: the rate is that of the last
quota.window.num windows, of which the current one is incomplete. A window begins with the first traffic after the end
of the one before.
"""

import math

from kohort.model import Millis


class _Window:
    __slots__ = ("amount", "began", "last")

    def __init__(self, now: Millis) -> None:
        self.empty(now)

    def empty(self, now: Millis) -> None:
        self.began = self.last = now
        self.amount = 0.0


class Rate:
    """Traffic in the last `windows` windows of `window_ms` each."""

    def __init__(self, windows: int, window_ms: Millis, now: Millis) -> None:
        self._windows = windows
        self._window_ms = window_ms
        # One more than is counted, as in Kafka: a window counts until its last traffic is as old as all windows long.
        self._kept = [_Window(now)]
        self._current = 0

    def add(self, amount: float, now: Millis) -> None:
        """Count traffic; a negative amount takes some back."""
        window = self._kept[self._current]
        if now - window.began >= self._window_ms:
            window = self._next(now)
        window.amount += amount
        window.last = now

    def pause_ms(self, limit: float, now: Millis) -> Millis:
        """Return the time that a client without further traffic must pause; 0 if its rate is within the limit.

        The rate may be above the limit even then if the client began recently: then it must pause again.
        """
        span_ms = self._span_ms(now)
        rate = sum(window.amount for window in self._kept) / (span_ms / 1000)
        if rate <= limit:
            return 0
        return math.floor((rate - limit) / limit * span_ms + 0.5)

    def is_idle(self, now: Millis) -> bool:
        """Return whether no traffic counts any more: a new rate would measure the same."""
        return all(self._is_over(window, now) for window in self._kept)

    def _next(self, now: Millis) -> _Window:
        self._current = (self._current + 1) % (self._windows + 1)
        if self._current == len(self._kept):
            self._kept.append(_Window(now))
        else:
            self._kept[self._current].empty(now)
        return self._kept[self._current]

    def _span_ms(self, now: Millis) -> Millis:
        """Return the time that the rate is measured over, at least that of all windows except the current one.

        So a new client may send at once what its limit allows for all of them.
        """
        for window in self._kept:
            if self._is_over(window, now):
                window.empty(now)
        elapsed = now - min(window.began for window in self._kept)
        missing = self._windows - 1 - elapsed // self._window_ms
        return max(elapsed + max(missing, 0) * self._window_ms, 1)

    def _is_over(self, window: _Window, now: Millis) -> bool:
        return now - window.last >= self._windows * self._window_ms


def most_at_once(limit: float, windows: int, window_ms: Millis) -> float:
    """Return the largest amount that a client without traffic may add without a pause."""
    return limit * (windows - 1) * (window_ms / 1000)
