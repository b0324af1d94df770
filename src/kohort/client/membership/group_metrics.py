"""Metrics of a group's member: its rebalances, its requests to the coordinator, and the callbacks."""

from dataclasses import replace

from kohort.client.metrics import (
    Definition,
    Definitions,
    Measurements,
    Report,
    Sampling,
    average_and_max,
    rate_and_total,
    seconds_ago,
    total,
)
from kohort.member import CallbackKind, Phase
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.sync_group import SyncGroupRequest

GROUP = "consumer-coordinator-metrics"

_MILLISECONDS = "in milliseconds"

_OF_BOTH: Definitions = {
    "commits": (
        *average_and_max("commit-latency", f"time of a commit, {_MILLISECONDS}"),
        *rate_and_total("commit", "commits"),
    ),
    "heartbeats": (
        *rate_and_total("heartbeat", "heartbeats sent"),
        Definition(
            "last-heartbeat-seconds-ago", "Number of seconds since the last heartbeat; -1 before it.", seconds_ago
        ),
    ),
    "heartbeat_answers": (
        Definition(
            "heartbeat-response-time-max",
            f"Largest time to the response to a heartbeat, {_MILLISECONDS}. A coordinator of Kohort may hold it.",
            Measurements.largest,
        ),
    ),
    "rebalance_times": (
        *average_and_max("rebalance-latency", f"time of a rebalance, {_MILLISECONDS}"),
        Definition("rebalance-latency-total", f"Total time of all rebalances, {_MILLISECONDS}.", total),
    ),
    "rebalances": (
        Definition("rebalance-rate-per-hour", "Number of rebalances per hour.", Measurements.hourly_rate),
        Definition("rebalance-total", "Total number of rebalances.", lambda values, now: float(values.count)),
        Definition(
            "last-rebalance-seconds-ago", "Number of seconds since the last rebalance; -1 before it.", seconds_ago
        ),
    ),
    "failed_rebalances": (
        Definition("failed-rebalance-rate-per-hour", "Number of failed rebalances per hour.", Measurements.hourly_rate),
        Definition(
            "failed-rebalance-total", "Total number of failed rebalances.", lambda values, now: float(values.count)
        ),
    ),
    "assigned": average_and_max("partition-assigned-latency", f"time of the callback `on_assigned`, {_MILLISECONDS}"),
    "revoked": average_and_max("partition-revoked-latency", f"time of the callback `on_revoked`, {_MILLISECONDS}"),
    "lost": average_and_max("partition-lost-latency", f"time of the callback `on_lost`, {_MILLISECONDS}"),
}

_CLASSIC: Definitions = {
    "joins": (
        *average_and_max("join-time", f"time to the response to a JoinGroup request, {_MILLISECONDS}"),
        *rate_and_total("join", "JoinGroup requests answered"),
    ),
    "syncs": (
        *average_and_max("sync-time", f"time to the response to a SyncGroup request, {_MILLISECONDS}"),
        *rate_and_total("sync", "SyncGroup requests answered"),
    ),
}
"""Metrics of members with the classic protocol."""

_OUTSIDE = frozenset({Phase.UNSUBSCRIBED, Phase.STALE, Phase.LEAVING, Phase.PREPARE_LEAVING, Phase.FATAL})
"""Phases of a member that takes part in no rebalance."""
_ATTEMPT = frozenset({Phase.JOINING, Phase.ASSIGNING, Phase.SYNCING})
"""Phases in which the member waits for a result of the rebalance."""
_FAILED = frozenset({Phase.PREPARING, Phase.STALE, Phase.FATAL, Phase.FENCED})
"""Phases after them that show that there is no result."""
_HEARTBEATS = (HeartbeatRequest, ConsumerGroupHeartbeatRequest)


class GroupMetrics:
    """Metrics of one member of one group."""

    def __init__(self, sampling: Sampling) -> None:
        self.commits = Measurements(sampling)
        self.heartbeats = Measurements(sampling)
        self.heartbeat_answers = Measurements(sampling)
        self.rebalance_times = Measurements(sampling)
        hours = replace(sampling, window_s=3600.0)
        self.rebalances = Measurements(hours)
        self.failed_rebalances = Measurements(hours)
        self.assigned = Measurements(sampling)
        self.revoked = Measurements(sampling)
        self.lost = Measurements(sampling)
        self.joins = Measurements(sampling)
        self.syncs = Measurements(sampling)
        self._callbacks = {
            CallbackKind.ASSIGN: self.assigned,
            CallbackKind.REVOKE: self.revoked,
            CallbackKind.LOST: self.lost,
        }
        self._began_at: float | None = None
        """Time at which the current rebalance began; None if there is none."""
        self.entered_at: float | None = None
        """Time at which the member entered its phase."""

    def entered(self, phase: Phase, before: Phase, now: float) -> None:
        """Record that the member entered a phase."""
        self.entered_at = now
        if before in _ATTEMPT and phase in _FAILED:
            self.failed_rebalances.add(1, now)
        if phase is Phase.STABLE:
            if self._began_at is not None:
                self.rebalances.add(1, now)
                self.rebalance_times.add((now - self._began_at) * 1000, now)
            self._began_at = None
        elif phase in _OUTSIDE:
            self._began_at = None
        elif self._began_at is None:
            self._began_at = now

    def sent(self, request: Message, now: float) -> None:
        """Record that a request to the coordinator was sent."""
        if isinstance(request, _HEARTBEATS):
            self.heartbeats.add(1, now)

    def answered(self, request: Message, took_s: float, now: float) -> None:
        """Record the response to it."""
        if isinstance(request, _HEARTBEATS):
            self.heartbeat_answers.add(took_s * 1000, now)
        elif isinstance(request, JoinGroupRequest):
            self.joins.add(took_s * 1000, now)
        elif isinstance(request, SyncGroupRequest):
            self.syncs.add(took_s * 1000, now)

    def called_back(self, kind: CallbackKind, took_s: float, now: float) -> None:
        """Record that a callback of the application ended."""
        self._callbacks[kind].add(took_s * 1000, now)

    def report(self, report: Report, *, assigned: int, classic: bool) -> None:
        """Add the metrics of a member that has this number of partitions."""
        report.add_all(GROUP, self, _OF_BOTH)
        if classic:
            report.add_all(GROUP, self, _CLASSIC)
        report.add(GROUP, "assigned-partitions", "Number of assigned partitions.", float(assigned))
