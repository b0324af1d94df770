"""Groups of a cluster whose log may not be read: described periodically, and compared with what was known."""

from collections.abc import Mapping

from kohort.client import Cluster
from kohort.model import UUID
from kohort.watch.group import GroupFound
from kohort.watch.live import Live
from kohort.watch.source.clients import clock
from kohort.watch.source.coordinators import describe_groups
from kohort.watch.source.describing import about, needs_describe
from kohort.watch.source.differences import deletion, differences, is_whole


class Poller:
    """Poller of all groups. Each call of `poll` tells `Live` what changed since the last one."""

    def __init__(self, cluster: Cluster, live: Live) -> None:
        self._cluster = cluster
        self._live = live
        self._known: dict[str, GroupFound] = {}
        self._rebalancing: set[str] = set()
        """Groups that were seen in a rebalance since their last whole description."""
        self._denied: set[str] = set()
        """Groups that may not be described."""
        self._hidden: set[str] = set()
        """Groups that could not be described as a whole since they were first heard of: they are not new."""
        self._all_answered = False
        """Whether the last poll heard of all groups."""

    async def poll(self) -> None:
        """Describe all groups once. Raises KafkaError if no broker answers."""
        described = await describe_groups(self._cluster)
        now = clock()
        denied = described.denied.keys()
        for group_id, code in described.denied.items():
            self._live.problem(needs_describe(group_id, code), now, about=about(group_id))
        for group_id in self._denied - denied if described.whole else ():
            self._live.solved(about(group_id), now)
        self._denied = set(denied) if described.whole else self._denied | denied
        self._hidden |= described.failed | denied
        for group_id, group in described.groups.items():
            if group_id in described.failed:
                continue
            if not is_whole(group):
                self._rebalancing.add(group_id)
                if not self._all_answered:
                    self._hidden.add(group_id)
                self._live.in_state(group_id, group.state, now)
                continue
            if group_id in self._known:
                self._tell(self._known[group_id], group, described.ids)
            elif group_id in self._hidden or not self._all_answered:
                self._live.found(group, now)  # it may have existed for long
            else:
                self._tell(None, group, described.ids)
            self._known[group_id] = group
            self._hidden.discard(group_id)
            self._rebalancing.discard(group_id)
        if described.whole:
            for group_id in self._known.keys() - described.groups.keys() - described.failed - denied:
                self._live.apply(deletion(self._known.pop(group_id), now), now, polled=True)
            self._rebalancing &= described.groups.keys()
            self._hidden &= described.groups.keys() | described.failed | denied
        self._all_answered = described.whole

    def _tell(self, before: GroupFound | None, group: GroupFound, ids: Mapping[str, UUID]) -> None:
        now = clock()
        watched = self._live.groups.get(group.group_id)
        epoch = 0 if watched is None or watched.epoch is None else watched.epoch
        changes = differences(
            before, group, generation=epoch + 1, rebalanced=group.group_id in self._rebalancing, ids=ids, at=now
        )
        if changes:
            self._live.apply(changes, now, polled=True)
        self._live.in_state(group.group_id, group.state, now)
