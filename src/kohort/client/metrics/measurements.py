"""Measured values, and their rate, average and extremes over the last windows of time. Pure.

The arithmetic is that of Apache Kafka's metrics, so that dashboards show the same figures. A window begins with the
first value after the end of the one before.
"""

from dataclasses import dataclass
from math import inf, nan

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Sampling:
    """Time over which values are measured: `windows` windows of `window_s` seconds each."""

    window_s: float = 30.0
    windows: int = 2


class _Window:
    __slots__ = ("began", "count", "ends", "largest", "last_at", "smallest", "total")

    def __init__(self, began: float, length: float) -> None:
        self.began = self.last_at = began
        self.ends = began + length
        self.count = 0
        self.total = 0.0
        self.largest, self.smallest = -inf, inf


_NONE = _Window(-inf, 0.0)
"""Window before the first value, which has ended."""


class Measurements:
    """Values of one kind. Times are in seconds of any clock that never goes back."""

    __slots__ = ("_at", "_current", "_kept", "_past_at", "_past_count", "_past_total", "_sampling", "last")

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        # One more than is counted, as in Kafka: a window counts until its last value is as old as all windows long.
        self._kept: list[_Window] = []
        self._at = -1
        self._current = _NONE
        self._past_count = 0
        self._past_total = 0.0
        """Number and sum of the values in windows that are no longer kept."""
        self._past_at: float | None = None
        self.last = nan
        """The last value; NaN before the first."""

    def add(self, value: float, now: float) -> None:
        """Add a value."""
        window = self._current
        if now >= window.ends:
            window = self._next(now)
        window.count += 1
        window.total += value
        window.last_at = now
        if value > window.largest:
            window.largest = value
        if value < window.smallest:
            window.smallest = value
        self.last = value

    def add_many(self, count: int, total: float, largest: float, now: float) -> None:
        """Add values at once, without the smallest of them."""
        self.add(largest, now)
        self._current.count += count - 1
        self._current.total += total - largest

    @property
    def count(self) -> int:
        """Number of values since the beginning."""
        return self._past_count + sum(window.count for window in self._kept)

    @property
    def total(self) -> float:
        """Sum of all values since the beginning."""
        return self._past_total + sum(window.total for window in self._kept)

    @property
    def last_at(self) -> float | None:
        """Time of the last value; None before the first."""
        return max((window.last_at for window in self._kept if window.count), default=self._past_at)

    def rate(self, now: float) -> float:
        """Return the sum of the values per second; 0 if there are none."""
        return self.window_total(now) / self._span_s(now)

    def count_rate(self, now: float) -> float:
        """Return the number of values per second; 0 if there are none."""
        return self.window_count(now) / self._span_s(now)

    def hourly_rate(self, now: float) -> float:
        """Return the number of values per hour; 0 if there are none."""
        return self.count_rate(now) * _HOUR_S

    def average(self, now: float) -> float:
        """Return the average of the values; NaN if there are none."""
        count = self.window_count(now)
        return self.window_total(now) / count if count else nan

    def largest(self, now: float) -> float:
        """Return the largest value; NaN if there are none."""
        return max((window.largest for window in self._counted(now) if window.count), default=nan)

    def smallest(self, now: float) -> float:
        """Return the smallest value; NaN if there are none."""
        return min((window.smallest for window in self._counted(now) if window.count), default=nan)

    def window_total(self, now: float) -> float:
        """Return the sum of the values in the last windows."""
        return sum(window.total for window in self._counted(now))

    def window_count(self, now: float) -> int:
        """Return the number of values in the last windows."""
        return sum(window.count for window in self._counted(now))

    def _next(self, now: float) -> _Window:
        self._at = (self._at + 1) % (self._sampling.windows + 1)
        window = self._current = _Window(now, self._sampling.window_s)
        if self._at == len(self._kept):
            self._kept.append(window)
        else:
            self._replace(self._at, window)
        return window

    def _replace(self, at: int, window: _Window) -> None:
        before = self._kept[at]
        if before.count:
            self._past_at = before.last_at
        self._past_count += before.count
        self._past_total += before.total
        self._kept[at] = window

    def _counted(self, now: float) -> list[_Window]:
        limit = self._sampling.windows * self._sampling.window_s
        for at, window in enumerate(self._kept):
            if now - window.last_at >= limit:
                self._replace(at, _Window(now, self._sampling.window_s))
        if self._kept:
            self._current = self._kept[self._at]
        return self._kept

    def _span_s(self, now: float) -> float:
        """Return the time that a rate is measured over, at least that of all windows except the current one.

        So the first values of a client do not appear as a high rate.
        """
        if not self._kept:
            self._next(now)
        elapsed = now - min(window.began for window in self._counted(now))
        missing = self._sampling.windows - 1 - elapsed // self._sampling.window_s
        return max(elapsed + max(missing, 0) * self._sampling.window_s, 0.001)
