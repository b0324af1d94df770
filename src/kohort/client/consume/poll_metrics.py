"""Metrics of a consumer's polls, and of its calls that wait for the group's coordinator."""

from kohort.client.metrics import (
    Definition,
    Definitions,
    Measurements,
    Report,
    Sampling,
    average_and_max,
    total_ns,
)

GROUP = "consumer-metrics"

_ADD_EVERY_S = 0.25
"""Interval at which polls become measured values."""

_DEFINITIONS: Definitions = {
    "between": average_and_max("time-between-poll", "time between two polls, in milliseconds"),
    "idle": (
        Definition(
            "poll-idle-ratio-avg",
            "Average part of the time that the application spends in `poll`.",
            Measurements.average,
        ),
    ),
    "commits": (Definition("commit-sync-time-ns-total", "Total time in `commit`, in nanoseconds.", total_ns),),
    "committed": (Definition("committed-time-ns-total", "Total time in `committed`, in nanoseconds.", total_ns),),
}


class PollMetrics:
    """Metrics of one consumer's calls. Call `began` for each poll, and `waited` for each time that one waited.

    Polls are added up and become measured values from time to time, because applications may call
    poll for each record.
    """

    def __init__(self, sampling: Sampling) -> None:
        self.between = Measurements(sampling)
        self.idle = Measurements(sampling)
        self.commits = Measurements(sampling)
        """Durations of `commit`, in seconds."""
        self.committed = Measurements(sampling)
        """Durations of `committed`, in seconds."""
        self._began_at: float | None = None
        self._waited_until = 0.0
        self._between_s = 0.0
        """Time between the beginnings of the last poll and of the one before."""
        self._polls = 0
        """Number of polls that are not measured values yet."""
        self._total_s = self._longest_s = self._ratios = 0.0
        self._add_at = 0.0

    def began(self, now: float) -> None:
        """Record the beginning of a poll."""
        before = self._began_at
        # As in Java, the first poll counts as if there was one just before.
        between = 0.0 if before is None else now - before
        if self._waited_until:
            self._end_wait()
        if now >= self._add_at:
            self._add_up(now)
        self._began_at = now
        self._between_s = between
        self._polls += 1
        self._total_s += between
        if between > self._longest_s:
            self._longest_s = between

    def waited(self, now: float) -> None:
        """Record that the poll has waited until now."""
        self._waited_until = now

    def _end_wait(self) -> None:
        assert self._began_at is not None
        inside = self._waited_until - self._began_at
        if inside > 0.0:
            self._ratios += inside / (inside + self._between_s)
        self._waited_until = 0.0

    def _add_up(self, now: float) -> None:
        self._add_at = now + _ADD_EVERY_S
        if self._polls:
            self.between.add_many(self._polls, self._total_s * 1000, self._longest_s * 1000, now)
            self.idle.add_many(self._polls, self._ratios, 0.0, now)
        self._polls = 0
        self._total_s = self._longest_s = self._ratios = 0.0

    def report(self, report: Report) -> None:
        """Add all metrics."""
        if self._waited_until:
            self._end_wait()
        self._add_up(report.now)
        report.add_all(GROUP, self, _DEFINITIONS)
        ago = -1.0 if self._began_at is None else float(int(report.now - self._began_at))
        report.add(GROUP, "last-poll-seconds-ago", "Number of seconds since the last poll; -1 before it.", ago)
