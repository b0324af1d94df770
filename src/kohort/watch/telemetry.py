"""What clients reported last about themselves (KIP-714), by the member of a group that each one is. Pure."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kohort.model import Millis
from kohort.telemetry import ClientTelemetry
from kohort.watch.group import WatchedGroup

MOST_CLIENTS = 20_000
"""Number of client instances that are remembered; the one that was silent for longest is forgotten first."""

_CONSUMER = "org.apache.kafka.consumer."
IDLE_RATIO = f"{_CONSUMER}poll.idle.ratio.avg"
"""Share of the time between polls in which the client waits for records, from 0 to 1."""
LAST_POLL = f"{_CONSUMER}last.poll.seconds.ago"
"""Time since the application last polled, in seconds."""
SHOWN = tuple(
    _CONSUMER + name
    for name in (
        "poll.idle.ratio.avg",
        "last.poll.seconds.ago",
        "coordinator.rebalance.latency.avg",
        "coordinator.rebalance.latency.max",
        "coordinator.commit.latency.avg",
        "coordinator.commit.latency.max",
        "coordinator.assigned.partitions",
        "fetch.manager.fetch.latency.avg",
        "fetch.manager.fetch.latency.max",
    )
)
"""Metrics of a member that say how it takes part in its group, in the order in which they are shown."""


def figures(telemetry: ClientTelemetry) -> dict[str, float]:
    """Return the metrics in `SHOWN` that the client pushed. Times are in milliseconds, or as their names say."""
    return {name: telemetry.metrics[name] for name in SHOWN if name in telemetry.metrics}


@dataclass(slots=True)
class ClientReports:
    """The last push of each client. It is bounded, and each push expires."""

    members: dict[str, ClientTelemetry] = field(default_factory=dict)
    """By member ID. Sums that were pushed as increments are added up in `metrics`."""
    _clients: OrderedDict[str, tuple[ClientTelemetry, str | None]] = field(default_factory=OrderedDict)
    """By client instance: its last push, and its member ID if that is known. The most silent one comes first."""

    def report(self, telemetry: ClientTelemetry, groups: Mapping[str, WatchedGroup]) -> str | None:
        """Take a push. Returns the ID of the group whose member it is about, or None if it is about none."""
        before, was = self._clients.pop(telemetry.client_instance_id, (None, None))
        if was is not None:
            self.members.pop(was, None)
        if telemetry.terminating:
            return telemetry.group_id if was is not None else None
        added = _with_sums(telemetry, before)
        group = groups.get(telemetry.group_id or "")
        member_id = None if group is None else member_of(telemetry, group)
        self._clients[telemetry.client_instance_id] = added, member_id
        if member_id is not None:
            self.members[member_id] = added
        while len(self._clients) > MOST_CLIENTS:
            self._forget(next(iter(self._clients)))
        return None if member_id is None else telemetry.group_id

    def expire(self, now: Millis) -> None:
        """Forget clients that missed two pushes."""
        for instance in [name for name, (last, _) in self._clients.items() if last.expires_at <= now]:
            self._forget(instance)

    def _forget(self, instance: str) -> None:
        _, member_id = self._clients.pop(instance)
        if member_id is not None:
            self.members.pop(member_id, None)


def member_of(telemetry: ClientTelemetry, group: WatchedGroup) -> str | None:
    """Return the member that a client of this group is, or None if that is not certain.

    A client that claims to be a member must have its client ID. librdkafka does not say which member it
    is: then the only member with its client ID and host is meant.
    """
    if telemetry.member_id is not None:
        claimed = group.members.get(telemetry.member_id)
        same = claimed is not None and claimed.facts.client_id == telemetry.client_id
        return telemetry.member_id if same else None
    whence = telemetry.client_id, telemetry.client_host, telemetry.instance_id
    found = [
        member_id
        for member_id, member in group.members.items()
        if (member.facts.client_id, member.facts.client_host, member.facts.instance_id) == whence
    ]
    return found[0] if len(found) == 1 else None


def _with_sums(telemetry: ClientTelemetry, before: ClientTelemetry | None) -> ClientTelemetry:
    """Return the push with its increments added to the sums before."""
    if not telemetry.increments:
        return telemetry
    sums = {} if before is None else before.metrics
    added = {name: sums.get(name, 0.0) + value for name, value in telemetry.increments.items()}
    return replace(telemetry, metrics={**telemetry.metrics, **added}, increments={})
