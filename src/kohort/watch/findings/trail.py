"""Lag of each group over the last minutes, for the rule about lag that grows. Pure; bounded per group."""

from collections import deque
from collections.abc import Iterable, Mapping

from kohort.model import Millis, TopicPartition
from kohort.watch.findings.facts import LagSeries
from kohort.watch.findings.limits import GROWTH_WINDOW_MS
from kohort.watch.group import WatchedGroup
from kohort.watch.lag import EndOffsets

_STEP_MS: Millis = 15_000
"""Interval between two points; a rule needs three in ten minutes."""
_MOST_POINTS = GROWTH_WINDOW_MS // _STEP_MS + 1


class LagTrails:
    """Lag in seconds of all groups over time."""

    def __init__(self) -> None:
        self._points: dict[str, deque[tuple[Millis, float | None]]] = {}

    def take(self, groups: Iterable[WatchedGroup], ends: Mapping[TopicPartition, EndOffsets], now: Millis) -> None:
        """Add the present lag of each group, and forget groups that are gone."""
        kept = {}
        for group in groups:
            trail = kept[group.group_id] = self._points.get(group.group_id) or deque(maxlen=_MOST_POINTS)
            if not trail or now - trail[-1][0] >= _STEP_MS:
                trail.append((now, lag_seconds(group, ends, now)))
        self._points = kept

    def of(self, group_id: str) -> LagSeries:
        """Return the points of one group, oldest first."""
        return tuple(self._points.get(group_id, ()))


def lag_seconds(group: WatchedGroup, ends: Mapping[TopicPartition, EndOffsets], now: Millis) -> float | None:
    """Return the largest lag of a group in seconds; None if no lag is known."""
    lags = (
        table.lag(commit.offset, now)
        for partition, commit in group.commits.items()
        if (table := ends.get(partition)) is not None
    )
    return max((lag.seconds for lag in lags if lag is not None), default=None)
