"""Owners of a group's partitions, and the partitions that are dark (processed by no member)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from kohort.model import Millis, TopicPartition

MOST_DARK = 200_000
"""Number of dark partitions that are remembered; the oldest are forgotten first, such as those of deleted topics."""


@dataclass(frozen=True, slots=True)
class Dark:
    """Start of a dark period, and the member that owned the partition before it."""

    since: Millis
    previous_owner: str


@dataclass(slots=True)
class Ownership:
    """Ownership in one group, as far as the recorder knows it."""

    owner: dict[TopicPartition, str] = field(default_factory=dict)
    """Owner of each partition; of a dark partition, the last owner."""
    held: dict[str, set[TopicPartition]] = field(default_factory=dict)
    """Partitions of each member: the inverse of `owner`."""
    dark: dict[TopicPartition, Dark] = field(default_factory=dict)

    def give(self, partition: TopicPartition, member_id: str) -> None:
        """Make the member the owner. The partition stays dark until it is removed from `dark`."""
        before = self.owner.get(partition)
        if before != member_id:
            if before is not None:
                self.held[before].discard(partition)
                if not self.held[before]:
                    del self.held[before]
            self.owner[partition] = member_id
            self.held.setdefault(member_id, set()).add(partition)

    def darken(self, partitions: Iterable[TopicPartition], now: Millis) -> None:
        """Mark partitions as dark from `now`. A partition that is already dark keeps its earlier time."""
        for partition in partitions:
            self.dark.setdefault(partition, Dark(now, self.owner[partition]))
        if len(self.dark) > MOST_DARK:
            for partition in list(islice(self.dark, len(self.dark) - MOST_DARK + MOST_DARK // 8)):
                self._forget(partition)

    def _forget(self, partition: TopicPartition) -> None:
        del self.dark[partition]
        member_id = self.owner.pop(partition)
        self.held[member_id].discard(partition)
        if not self.held[member_id]:
            del self.held[member_id]
