"""The owner of each partition of a consumer group, including partitions that the owner must revoke.

The owners determine which partitions are free, and which commits are valid (KIP-1251). They are
stored in lists by partition number, with 8 bytes per partition: a large group has 100,000.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.model import UUID

MOST_PARTITIONS = 1 << 20
"""Maximum number of partitions per topic, ten times the limit of our brokers.

A record with a higher partition number is damaged.
"""


@dataclass(frozen=True, slots=True)
class Owner:
    """Owner of a partition, and its epoch when the partition was assigned. Many partitions share one object."""

    member_id: str
    since_epoch: int


class _Topic:
    """The owners of one topic's partitions, up to the highest one ever owned, and the number of owned ones."""

    __slots__ = ("owners", "taken")

    def __init__(self) -> None:
        self.owners: list[Owner | None] = []
        self.taken = 0


class Owners:
    """The owners of a group's partitions. A topic without owners uses no memory."""

    __slots__ = ("_topics",)

    def __init__(self) -> None:
        self._topics: dict[UUID, _Topic] = {}

    def __iter__(self) -> Iterator[tuple[UUID, int]]:
        """Iterate over the partitions that have an owner."""
        for topic_id, topic in self._topics.items():
            yield from ((topic_id, number) for number, owner in enumerate(topic.owners) if owner is not None)

    def __len__(self) -> int:
        return sum(topic.taken for topic in self._topics.values())

    def of(self, topic_id: UUID, partition: int) -> Owner | None:
        """Return the owner of a partition."""
        topic = self._topics.get(topic_id)
        return topic.owners[partition] if topic is not None and 0 <= partition < len(topic.owners) else None

    def taken(self, wanted: Partitions) -> Partitions:
        """Return the partitions of `wanted` that have an owner."""
        found: list[tuple[UUID, frozenset[int]]] = []
        for topic_id, partitions in wanted.by_topic.items():
            topic = self._topics.get(topic_id)
            if topic is not None:
                owners, end = topic.owners, len(topic.owners)
                found.append((topic_id, frozenset(n for n in partitions if n < end and owners[n] is not None)))
        return Partitions.of(found) if found else NOTHING

    def give(self, member_id: str, partitions: Iterable[tuple[UUID, int, int]]) -> None:
        """Record that a member has these partitions, given as (topic ID, partition, epoch of assignment)."""
        by_epoch: dict[int, Owner] = {}
        for topic_id, partition, epoch in partitions:
            if not 0 <= partition < MOST_PARTITIONS:
                continue
            owner = by_epoch.get(epoch)
            if owner is None:
                owner = by_epoch[epoch] = Owner(member_id, epoch)
            topic = self._topics.get(topic_id)
            if topic is None:
                topic = self._topics[topic_id] = _Topic()
            owners = topic.owners
            if partition >= len(owners):
                owners.extend([None] * (partition + 1 - len(owners)))
            if owners[partition] is None:
                topic.taken += 1
            owners[partition] = owner

    def release(self, member_id: str, partitions: Partitions) -> None:
        """Free the partitions that this member still owns; partitions of other owners are unchanged."""
        for topic_id, numbers in partitions.by_topic.items():
            topic = self._topics.get(topic_id)
            if topic is None:
                continue
            owners = topic.owners
            for number in numbers:
                owner = owners[number] if 0 <= number < len(owners) else None
                if owner is not None and owner.member_id == member_id:
                    owners[number] = None
                    topic.taken -= 1
            if not topic.taken:
                del self._topics[topic_id]
