"""All groups of a cluster, from changes that its log reports. Pure."""

from collections.abc import Iterable, Mapping

from kohort.model import UUID, Millis, TopicPartition
from kohort.recorder import RebalanceRecord
from kohort.watch.changes import Change, GroupChange, TopicNamed
from kohort.watch.group import NO_ENDS, GroupFound, WatchedGroup
from kohort.watch.lag import EndOffsets


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
        self._waiting: set[str] = set()
        """Groups with a record of which more may become known."""

    @property
    def topic_names(self) -> Mapping[UUID, str]:
        """Names of topics by ID."""
        return self._names

    def name_topics(self, names: Mapping[UUID, str]) -> None:
        """Add names of topics. Partitions whose topic has no name are left out of owners and records."""
        self._names |= names

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
            if isinstance(change, TopicNamed):
                self._names[change.topic_id] = change.name
                continue
            group = self._going_on(change) or self._group(change.group_id)
            records += group.apply(change, self._names, ends)
            if group.waits:
                self._waiting.add(change.group_id)
            if not group.exists:
                self._deleted = self.groups.pop(change.group_id)
        return records

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
