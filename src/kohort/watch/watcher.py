"""All groups of a cluster, from changes that its log reports. Pure."""

from collections.abc import Iterable, Mapping

from kohort.model import UUID, Millis
from kohort.recorder import RebalanceRecord
from kohort.watch.changes import Change, TopicNamed
from kohort.watch.group import GroupFound, WatchedGroup


class Watcher:
    """State of all groups.

    The changes of one group must be applied in the order of its log.
    """

    def __init__(self) -> None:
        self.groups: dict[str, WatchedGroup] = {}
        """Groups by ID. A group whose last record was deleted is absent."""
        self._names: dict[UUID, str] = {}

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

    def apply(self, changes: Iterable[Change]) -> list[RebalanceRecord]:
        """Apply changes, and return the records of the rebalances that they complete, in order."""
        records: list[RebalanceRecord] = []
        for change in changes:
            if isinstance(change, TopicNamed):
                self._names[change.topic_id] = change.name
                continue
            group = self._group(change.group_id)
            records += group.apply(change, self._names)
            if not group.exists:
                del self.groups[change.group_id]
        return records

    def _group(self, group_id: str) -> WatchedGroup:
        return self.groups.setdefault(group_id, WatchedGroup(group_id))
