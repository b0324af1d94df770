"""Lag of a group in one partition, in records and in seconds. Pure: time is an argument.

The lag in seconds is the age of the first unread record: the time since the partition's end passed
the committed offset. It is interpolated in a table of (time, end offset).
"""

from bisect import bisect_right
from collections.abc import Set
from dataclasses import dataclass, field, replace
from enum import Enum
from operator import attrgetter

from kohort.model import Millis

RELATIVE_ERROR = 1 / 8
"""Error of an age that thinning may add, relative to the age. About 150 points then reach back a week."""

_CHECK_MS = 60_000
"""Age of an unread record from which it is checked whether it still exists, and the interval of the checks."""
_STANDS_MS: Millis = 1_000
"""Time for which the last record stays unread until it is looked at, in a log that was not read yet."""
_SKEW_MS: Millis = 1_000
"""Difference of two clocks that is usual: a timestamp that is further in the future is wrong."""
_MOST_OFFSETS = 256
"""Number of single offsets that are kept for each partition: one for each group that lags there."""


class LagMethod(Enum):
    """Origin of a lag in seconds."""

    CAUGHT_UP = "caught up"
    """Every record is committed, so the lag is exactly 0."""
    INTERPOLATED = "interpolated"
    """The end passed the committed offset between two samples of the end."""
    TIMESTAMPS = "timestamps"
    """Timestamps of records say when the end passed the committed offset."""
    AT_LEAST = "at least"
    """The first unread record is older than the table; its age is at least this."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of one group in one partition."""

    records: int
    seconds: float
    method: LagMethod


@dataclass(frozen=True, slots=True)
class EndPoint:
    """End offset of a partition at one time."""

    at: Millis
    end: int


@dataclass(frozen=True, slots=True)
class Passed:
    """Time at which a partition's end passed an offset."""

    at: float
    method: LagMethod
    checked_at: Millis = 0
    """Time at which the record was read; 0 if it was not."""


@dataclass(slots=True)
class EndOffsets:
    """Table of one partition's end offsets over time, oldest first.

    Old points are thinned: where the end rises between two neighbours, they are never further apart
    than the samples were, or than an eighth of their age.
    """

    points: list[EndPoint] = field(default_factory=list)
    _asked_from: Millis | None = None
    """Time before which the table was filled by timestamps of records; None if it was not."""
    start: int | None = None
    """Offset of the log's first record when it was asked for; None if it was not."""
    _reaches_start: bool = False
    """Whether the oldest point is the first record of the log."""
    _thin_at: int = 32
    _passed: dict[int, Passed] = field(default_factory=dict)
    """What is known of single offsets, however much of the table is thinned."""
    _empty: dict[int, int] = field(default_factory=dict)
    """Offset below which no record follows a committed offset, where the log was read and has none."""
    _read: bool = False
    """Whether a first unread record was looked for."""
    _has_markers: bool = False
    """Whether there was none: the log probably has markers of transactions."""
    _misdated: bool = False
    """Whether a record has a timestamp in the future, so that answers to questions for a time are wrong."""

    @property
    def end(self) -> int | None:
        """Newest end offset; None if no point is known."""
        return self.points[-1].end if self.points else None

    def add(self, at: Millis, end: int) -> None:
        """Add a point. A time before the last point counts as that of the last point.

        An end below the last one shows that the log was truncated or its topic created again: the
        points above it no longer describe this log, and are dropped.
        """
        points = self.points
        if points and at < points[-1].at:
            at = points[-1].at  # clocks are set back; an order that cannot be is no better
        if points and points[-1].end > end:
            self.start = None
            self._passed.clear()
            self._empty.clear()
            while points and points[-1].end > end:
                points.pop()
        if len(points) > 1 and points[-1].end == points[-2].end == end:
            points.pop()  # the end stood still, so its first and last time say all
        points.append(EndPoint(at, end))
        if len(points) > self._thin_at:
            self._thin(at)
            self._thin_at = 2 * max(16, len(self.points))

    def forget_times(self, now: Millis) -> None:
        """Forget all times, because the clock was set: only the newest end is known, as of now."""
        if self.points:
            self.points = [EndPoint(now, self.points[-1].end)]
        self._asked_from, self._reaches_start = None, False
        self._passed.clear()

    def lag(self, committed: int, now: Millis) -> Lag | None:
        """Return the lag behind the newest end; None if no end is known.

        The newest end must have been taken after the commit, else the lag is too small.
        """
        if not self.points:
            return None
        end, committed = self.points[-1].end, self._empty.get(committed, committed)
        if committed >= end:
            return Lag(0, 0.0, LagMethod.CAUGHT_UP)
        passed = self._passed.get(committed) or self._estimate(committed)
        return Lag(end - committed, _seconds(now - passed.at), passed.method)

    def _estimate(self, committed: int) -> Passed:
        above = bisect_right(self.points, committed, key=attrgetter("end"))
        if above == 0:
            return Passed(self.points[0].at, LagMethod.AT_LEAST)
        before, after = self.points[above - 1], self.points[above]
        # Of one record, the middle of the interval is at most half of it wrong.
        share = (committed + 0.5 - before.end) / (after.end - before.end)
        arrived = before.at + share * (after.at - before.at)
        asked = self._asked_from is not None and before.at < self._asked_from
        return Passed(arrived, LagMethod.TIMESTAMPS if asked else LagMethod.INTERPOLATED)

    # -- single offsets

    def keep(self, committed: int) -> None:
        """Keep the time at which the end passed this offset: thinning makes the table less exact."""
        committed = self._empty.get(committed, committed)
        if self.points and committed < self.points[-1].end and committed not in self._passed:
            self._set(committed, self._estimate(committed))

    def keep_only(self, committed: Set[int]) -> None:
        """Forget what is kept of all other offsets."""
        if self._empty:
            self._empty = {offset: until for offset, until in self._empty.items() if offset in committed}
            committed = committed | set(self._empty.values())
        for offset in self._passed.keys() - committed if self._passed else ():
            del self._passed[offset]

    def must_check(self, committed: int, now: Millis) -> bool:
        """Return whether the first unread record must be read, because the one at the offset may be deleted by now.

        Compaction and retention delete records that a group has not read, and markers of transactions have offsets,
        too. Pass the answer to `checked`.
        """
        committed = self._empty.get(committed, committed)
        passed = self._passed.get(committed)
        if passed is None:
            return False
        if not passed.checked_at and self._is_doubtful(committed, passed, now):
            return True
        return now - passed.at >= _CHECK_MS and now - passed.checked_at >= _CHECK_MS

    def _is_doubtful(self, committed: int, passed: Passed, now: Millis) -> bool:
        """Return whether what is known of an offset is likely to be wrong."""
        if passed.method is LagMethod.AT_LEAST:
            return True
        if self._misdated and passed.method is LagMethod.TIMESTAMPS:
            return True
        # One offset may be a marker of a transaction, which every transaction leaves at the end.
        may_be_marker = self._has_markers or (not self._read and now - passed.at >= _STANDS_MS)
        return may_be_marker and committed + 1 == self.points[-1].end

    @property
    def misdated(self) -> bool:
        """Whether a record has a timestamp in the future: then only reading records tells their times."""
        return self._misdated

    def checked(self, committed: int, found: EndPoint | None, now: Millis) -> None:
        """Take the first unread record; None if it cannot be read."""
        self._read = True
        passed = self._passed.get(self._empty.get(committed, committed))
        if passed is not None and (found is None or found.at < 0):
            self._set(self._empty.get(committed, committed), replace(passed, checked_at=now))
        elif found is not None and found.at >= 0:
            self._empty.pop(committed, None)
            self._set(committed, Passed(float(found.at), LagMethod.TIMESTAMPS, now))

    def nothing_before(self, committed: int, until: int) -> None:
        """Take that the log was read from the committed offset, and has no record before the offset `until`.

        Markers of transactions have offsets, and no consumer receives them. Aborted and deleted records
        leave such gaps, too.
        """
        self._read = self._has_markers = True
        self._passed.pop(self._empty.pop(committed, committed), None)
        self._empty[committed] = until
        if len(self._empty) > _MOST_OFFSETS:
            del self._empty[next(iter(self._empty))]

    def _set(self, committed: int, passed: Passed) -> None:
        self._passed.pop(committed, None)
        self._passed[committed] = passed
        if len(self._passed) > _MOST_OFFSETS:
            del self._passed[next(iter(self._passed))]

    # -- questions to the broker

    def arrived(self, offset: int) -> tuple[Millis | None, Millis | None]:
        """Return the bounds of the time at which the record at this offset arrived; None where the table has none."""
        above = bisect_right(self.points, offset, key=attrgetter("end"))
        earliest = self.points[above - 1].at if above else None
        return earliest, self.points[above].at if above < len(self.points) else None

    def next_time(self, committed: int, within_ms: Millis = 500) -> Millis | None:
        """Return the time for which to ask the broker (ListOffsets), to know this lag within `within_ms`.

        Returns None if the table suffices, or if the log no longer has the first unread record. Pass
        the answer to `insert`, and ask again: about twenty answers make a table where there was none.
        """
        committed = self._empty.get(committed, committed)
        if not self.points or committed >= self.points[-1].end or committed in self._passed:
            return None
        above = bisect_right(self.points, committed, key=attrgetter("end"))
        if above == 0:
            if self._reaches_start:
                return None
            age = max(1_000, self.points[-1].at - self.points[0].at)
            return max(0, self.points[-1].at - 8 * age)
        before, after = self.points[above - 1].at, self.points[above].at
        return None if after - before <= within_ms else (before + after) // 2

    def insert(self, asked: Millis, found: EndPoint | None) -> None:
        """Insert an answer to ListOffsets for a time: the first record at or after it; None if all are older.

        It replaces samples that nobody took, as far as the records' timestamps are the times of their
        arrival. Points that contradict others are left out.
        """
        assert self.points, "the newest end must be known first"
        if self._asked_from is None:
            self._asked_from = self.points[0].at
        if asked == 0:
            # Before its first record, the log had records that are deleted by now: the answers for
            # those times say nothing about its end.
            self._reaches_start = True
            if found is None:  # no record has a timestamp, so no answer says anything
                self.points = self.points[-1:]
                return
            self.start = found.end
            self.points = [point for point in self.points[:-1] if point.end > found.end] + self.points[-1:]
        else:
            self._insert(EndPoint(asked, self.points[-1].end if found is None else found.end))
        if found is None:
            return
        newest = self.points[-1]
        if found.at > newest.at:
            # It arrived after the end was sampled, or it did before, and its timestamp is wrong.
            self._misdated = self._misdated or (found.end < newest.end and found.at > newest.at + _SKEW_MS)
            return
        self._insert(found)
        self._insert(EndPoint(found.at, found.end + 1))

    def _insert(self, point: EndPoint) -> None:
        index = bisect_right(self.points, (point.at, point.end), key=attrgetter("at", "end"))
        before, after = self.points[index - 1] if index else None, self.points[index : index + 1]
        if (before is None or before.end <= point.end) and all(point.end <= next_.end for next_ in after):
            self.points.insert(index, point)

    def _thin(self, now: Millis) -> None:
        kept = self.points[:1]
        for point, following in zip(self.points[1:-1], self.points[2:], strict=True):
            if following.at - kept[-1].at > RELATIVE_ERROR * (now - following.at):
                kept.append(point)
        self.points = [*kept, self.points[-1]]


def _seconds(passed: float) -> float:
    return max(0.0, passed) / 1000
