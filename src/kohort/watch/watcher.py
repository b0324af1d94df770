"""All groups of a cluster, from changes that its log reports. Pure."""

from collections import deque
from collections.abc import Iterable, Mapping

from kohort.model import UUID, Millis, TopicPartition
from kohort.recorder import RebalanceRecord
from kohort.watch.changes import Change, Committed, GroupChange, TopicNamed
from kohort.watch.group import NO_ENDS, GroupFound, WatchedGroup
from kohort.watch.lag import EndOffsets

_NAMES = 100_000
"""Number of topic names above which those are forgotten that no member needs."""
_MOST_ITEMS = 2_000_000
"""Number of members and partitions in the records of all groups. They take about 200 MB."""
_MOST_ITEMS_OF_GROUP = 250_000


def size_of(record: RebalanceRecord) -> int:
    """Return the size of a record, as a number of members and partitions. Long names count more."""
    members = (*record.before, *record.after)
    long = sum(len(member.member_id) for member in members) // 200
    lists = record.partitions, record.triggers, record.gone, record.weighed, record.refused
    return 1 + len(members) + long + sum(map(len, lists))


class Watcher:
    """State of all groups.

    The changes of one group must be applied in the order of its log.
    """

    def __init__(self) -> None:
        self.groups: dict[str, WatchedGroup] = {}
        """Groups by ID. A group whose last record was deleted is absent."""
        self._names: dict[UUID, str] = {}
        self._deleted: WatchedGroup | None = None
        """Group that was deleted last. A change at the same time shows that it only changed its protocol."""
        self._names_at_most = _NAMES
        self._added = 0
        """Size of the records since the last look at all of them."""
        self.forgotten_until: Millis | None = None
        """End of the newest rebalance that was forgotten because there are too many; None if none was."""
        self._waiting: set[str] = set()
        """Groups with a record of which more may become known."""

    @property
    def topic_names(self) -> Mapping[UUID, str]:
        """Names of topics by ID."""
        return self._names

    def name_topics(self, names: Mapping[UUID, str]) -> None:
        """Add names of topics. Partitions whose topic has no name are left out of owners and records."""
        self._names |= names
        if len(self._names) > self._names_at_most:
            self._forget_names()

    def found(self, group: GroupFound, now: Millis) -> None:
        """Take the state of a group that an admin API described."""
        self._group(group.group_id).found(group, now)

    def apply(
        self, changes: Iterable[Change], ends: Mapping[TopicPartition, EndOffsets] = NO_ENDS
    ) -> list[RebalanceRecord]:
        """Apply changes, and return the records of the rebalances that they complete or amend, in order.

        `ends` are the end offsets of partitions over time, if they are sampled.
        """
        records: list[RebalanceRecord] = []
        for change in changes:
            if isinstance(change, Committed) and self._deleted is None:
                # Nearly all are. A commit completes records, and begins none.
                group = self._group(change.group_id)
                if group.waits:
                    records += group.apply(change, self._names, ends)
                else:
                    group.commit(change, ends.get(change.partition))
                continue
            if isinstance(change, TopicNamed):
                if self._names.get(change.topic_id) != change.name:
                    self.name_topics({change.topic_id: change.name})
                continue
            group = self._going_on(change) or self._group(change.group_id)
            records += group.apply(change, self._names, ends)
            if group.waits:
                self._waiting.add(change.group_id)
            if not group.exists:
                self._deleted = self.groups.pop(change.group_id)
        self._added += sum(map(size_of, records))
        if self._added > _MOST_ITEMS // 8:
            self._forget_records()
        return records

    def _forget_names(self) -> None:
        """Forget topics in which no member has partitions, most of them deleted. Others are asked for again."""
        members = (member for group in self.groups.values() for member in group.members.values())
        used = {topic_id for member in members for topic_id, _ in member.held or ()}
        self._names = {topic_id: name for topic_id, name in self._names.items() if topic_id in used}
        self._names_at_most = max(_NAMES, 2 * len(self._names))

    def _forget_records(self) -> None:
        """Forget the oldest records if they are too large together. Each group keeps its newest."""
        self._added = 0
        sizes: list[tuple[Millis, int]] = []
        for group in self.groups.values():
            own = deque((record.ended_at, size_of(record)) for record in group.rebalances)
            total = sum(size for _, size in own)
            while total > _MOST_ITEMS_OF_GROUP and len(own) > 1:
                total -= own.popleft()[1]
                self._forget_oldest(group)
            sizes += own
        total, until = sum(size for _, size in sizes), None
        for ended_at, size in sorted(sizes):
            if total <= _MOST_ITEMS:
                break
            total, until = total - size, ended_at
        if until is not None:
            for group in self.groups.values():
                while len(group.rebalances) > 1 and group.rebalances[0].ended_at <= until:
                    self._forget_oldest(group)

    def _forget_oldest(self, group: WatchedGroup) -> None:
        self.forgotten_until = max(self.forgotten_until or 0, group.rebalances.popleft().ended_at)

    def expire(self, now: Millis) -> list[RebalanceRecord]:
        """Give up first commits that are overdue, and return the records of which more is known by now.

        `now` is the time up to which the log has been read. Call it about once a second.
        """
        records: list[RebalanceRecord] = []
        for group_id in sorted(self._waiting):
            group = self.groups.get(group_id)
            if group is not None:
                records += group.expire(now)
            if group is None or not group.waits:
                self._waiting.remove(group_id)
        return records

    def _going_on(self, change: GroupChange) -> WatchedGroup | None:
        deleted, self._deleted = self._deleted, None
        if deleted is None or deleted.group_id != change.group_id or deleted.deleted_at != change.at:
            return None
        return self.groups.setdefault(deleted.group_id, deleted)

    def _group(self, group_id: str) -> WatchedGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = WatchedGroup(group_id)
        return group
