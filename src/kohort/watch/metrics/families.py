"""Metrics of groups that only Kohort has, and those of the watcher itself. Pure."""

from collections import Counter
from collections.abc import Iterable

from kohort.exposition import Exposition, escaped, labels
from kohort.group_events import Cause
from kohort.model import Millis
from kohort.recorder import is_eager
from kohort.watch.group import REBALANCING, WatchedGroup, WatchedMember
from kohort.watch.live import Live, SourceKind
from kohort.watch.metrics.counters import GroupCounters, protocol_of
from kohort.watch.metrics.recent import Recent
from kohort.watch.snapshot import PartitionProgress

AWAY = -2
"""Member epoch of a static member that left and may return (KIP-848)."""

_USUAL = (Cause.MEMBER_JOINED.value, Cause.MEMBER_GONE.value)
"""Causes that are shown before they happen, because `increase` in PromQL misses a series' first value."""


class GroupFamilies:
    """Families with the names `kohort_group_...`."""

    def __init__(self, text: Exposition, cluster: str) -> None:
        self._cluster = labels(cluster_name=cluster)
        ours = "kohort_group"
        self._rebalances = text.counter(f"{ours}_rebalances", "Rebalances by cause and protocol.")
        self._seconds = text.histogram(
            f"{ours}_rebalance_seconds", "Time from the first trigger of a rebalance to its assignment, if known."
        )
        self._dark = text.counter(
            f"{ours}_dark_partition_seconds", "Time for which no member read a partition, added up, if known."
        )
        self._paused = text.counter(
            f"{ours}_paused_member_seconds", "Time for which members of eager groups stopped, added up, if known."
        )
        self._moved = text.counter(f"{ours}_partitions_moved", "Partitions that moved from one member to another.")
        self._members = text.gauge(f"{ours}_members", "Members by state.")
        self._partitions = text.gauge(f"{ours}_partitions", "Partitions that have an owner.")
        self._unowned = text.gauge(f"{ours}_dark_partitions", "Partitions without a reader in a group with members.")
        self._dark_for = text.gauge(
            f"{ours}_longest_dark_seconds", "Time for which a partition has no reader by now; the longest."
        )
        self._slowest = text.gauge(
            f"{ours}_slowest_revoke_seconds", "Longest time that a member took to revoke partitions in the last hour."
        )
        self._flapping = text.gauge(f"{ours}_flapping_members", "Members that went and came back three times.")
        self._missing = text.gauge(
            f"{ours}_missing_members", "Members that went in the last hour, and neither came back nor were replaced."
        )
        self._thrashing = text.gauge(
            f"{ours}_thrashing", "1 if more rebalances follow each other than a restart of all members causes."
        )
        self._paused_now = text.gauge(
            f"{ours}_paused_members", "Members that process nothing now, because their eager group rebalances."
        )
        self._epoch = text.gauge(f"{ours}_epoch", "Generation of a classic group, group epoch of a consumer group.")
        self._state = text.gauge(f"{ours}_state", "1 for the group's state.")
        self._methods = text.gauge(f"{ours}_lag_partitions", "Partitions by the way their lag in seconds is known.")

    def group(
        self,
        group: WatchedGroup,
        counters: GroupCounters,
        recent: Recent,
        progress: Iterable[PartitionProgress],
        dark_since: Iterable[Millis],
        now: Millis,
    ) -> None:
        """Add a group. `dark_since` has the times since which partitions have no owner."""
        ours = f'{self._cluster},group="{escaped(group.group_id)}"'
        self._counters(ours, group, counters)
        self._of_members(ours, group)
        dark = list(dark_since)
        self._unowned.add(ours, len(dark))
        self._dark_for.add(ours, max((now - since for since in dark), default=0) / 1000)
        if recent.slowest_revocation_ms is not None:
            client = f'{ours},client_id="{escaped(recent.slowest_client_id)}"'
            self._slowest.add(client, recent.slowest_revocation_ms / 1000)
        self._flapping.add(ours, recent.flapping)
        self._missing.add(ours, recent.missing)
        self._thrashing.add(ours, int(recent.thrashing))
        self._paused_now.add(ours, _paused(group))
        if group.epoch is not None:
            self._epoch.add(ours, group.epoch)
        self._state.add(f"{ours},{labels(state=group.state)}", 1)
        methods = Counter(each.lag.method for each in progress if each.lag is not None)
        for method, count in methods.items():
            self._methods.add(f'{ours},method="{method.value}"', count)

    def _counters(self, ours: str, group: WatchedGroup, counters: GroupCounters) -> None:
        shown = dict(counters.rebalances)
        if group.type is not None:
            protocol = protocol_of(group.type, group.protocol)
            shown = {(cause, protocol): 0 for cause in _USUAL} | shown
        for (cause, protocol), count in shown.items():
            series = f'{ours},cause="{cause}",protocol="{protocol}"'
            self._rebalances.add(series, count, counters.exemplars.get((cause, protocol)))
        if any(counters.seconds.counts):
            self._seconds.add_histogram(ours, counters.seconds)
        self._dark.add(ours, counters.dark_ms / 1000)
        self._paused.add(ours, counters.paused_ms / 1000)
        self._moved.add(f'{ours},needless="false"', counters.needed_moves)
        self._moved.add(f'{ours},needless="true"', counters.needless_moves)

    def _of_members(self, ours: str, group: WatchedGroup) -> None:
        states = Counter[str]()
        states["stable"] = 0  # shown without members, too
        for member in group.members.values():
            states[_state(group, member)] += 1
        for state, count in states.items():
            self._members.add(f'{ours},state="{state}"', count)
        self._partitions.add(ours, sum(len(member.owned) for member in group.members.values()))


def _state(group: WatchedGroup, member: WatchedMember) -> str:
    if member.epoch == AWAY:
        return "away"
    settled = group.type != "consumer" or (member.stable and member.epoch == group.epoch)
    return "stable" if settled else "reconciling"


def _paused(group: WatchedGroup) -> int:
    """Return the number of members that stopped for a rebalance. Members of other groups keep what does not move."""
    stops = group.type == "classic" and group.state in REBALANCING and is_eager(group.protocol)
    return len(group.members) if stops else 0


def add_watcher(text: Exposition, live: Live, cluster: str, now: Millis, *, groups: int, limited: bool) -> None:
    """Add the metrics of the watcher: what it can see. `limited` tells that series of partitions are left out."""
    ours = labels(cluster_name=cluster)
    following = text.gauge("kohort_watch_source_following", "1 if the source reports what happens now.")
    for kind in SourceKind:
        if (source := live.sources.get(kind)) is not None:
            following.add(f'{ours},source="{kind.value}"', int(source.state == "following"))
    text.gauge("kohort_watch_groups", "Groups of this scrape.").add(ours, groups)
    text.gauge("kohort_watch_problems", "Things that cannot be read or known at present.").add(ours, len(live.problems))
    text.gauge("kohort_watch_partitions_left_out", "1 if there are too many partitions for series of each.").add(
        ours, int(limited)
    )
    age = text.gauge("kohort_watch_end_offsets_age_seconds", "Age of the end offsets, on which lags depend.")
    if live.sampled_at is not None:
        age.add(ours, max(0, now - live.sampled_at) / 1000)
    text.counter("kohort_watch_records", "Records of the groups' log that were read.").add(ours, live.counts.records)
    text.counter("kohort_watch_unreadable_records", "Records of the groups' log that could not be read.").add(
        ours, live.counts.unreadable
    )
