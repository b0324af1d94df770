"""Sticky, balanced assignment for members with different subscriptions.

The result is balanced in the sense of Java's general assignment (KIP-54): no member has two or more
partitions more than another member that could take one of them. A set of members is an integer with
one bit per member, so a few ANDs find a topic's least loaded subscriber even if subscriptions
overlap in many ways.
"""

from collections.abc import Mapping, Sequence

from kohort.model import TopicPartition


def assign_mixed(
    partitions: Mapping[str, int],
    topics: Mapping[str, frozenset[str]],
    owned: Mapping[str, Sequence[TopicPartition]],
) -> dict[str, list[TopicPartition]]:
    """Keep owned partitions, assign the rest, then move single partitions until no member is overloaded.

    `topics` has an entry for every member; `owned` has no conflicts and contains only subscribed
    topics.
    """
    loads = _Loads(sorted(topics), topics, owned)
    _deal(partitions, owned, loads)
    _level(loads)
    return loads.shares()


class _Loads:
    """Number of partitions per member; finds the least loaded subscriber of a topic."""

    def __init__(
        self,
        member_ids: Sequence[str],
        topics: Mapping[str, frozenset[str]],
        owned: Mapping[str, Sequence[TopicPartition]],
    ) -> None:
        self.member_ids = member_ids
        self.held: list[dict[str, list[int]]] = [{} for _ in member_ids]
        """Partitions by member, then by topic: owned partitions first, then the others in the order of assignment."""
        self.load = [0] * len(member_ids)
        self.subscribers = _subscribers(member_ids, topics)
        self._having = {0: (1 << len(member_ids)) - 1}
        for index, member_id in enumerate(member_ids):
            for topic, number in owned[member_id]:
                self.held[index].setdefault(topic, []).append(number)
            self._set(index, len(owned[member_id]))

    def give(self, member: int, topic: str, number: int) -> None:
        self.held[member].setdefault(topic, []).append(number)
        self._set(member, self.load[member] + 1)

    def take(self, member: int, topic: str) -> int:
        """Remove and return the member's last partition of the topic; formerly owned partitions are removed last."""
        self._set(member, self.load[member] - 1)
        return self.held[member][topic].pop()

    def lightest(self, topic: str, below: int | None = None) -> int | None:
        """Return the least loaded subscriber, or the first of several; None if all have at least `below` partitions."""
        subscribers = self.subscribers[topic]
        for load in sorted(self._having):
            if below is not None and load >= below:
                return None
            if lightest := self._having[load] & subscribers:
                return (lightest & -lightest).bit_length() - 1
        return None

    def shares(self) -> dict[str, list[TopicPartition]]:
        return {
            member_id: [TopicPartition(topic, number) for topic, numbers in held.items() for number in numbers]
            for member_id, held in zip(self.member_ids, self.held, strict=True)
        }

    def _set(self, member: int, load: int) -> None:
        before, bit = self.load[member], 1 << member
        self._having[before] ^= bit
        if not self._having[before]:
            del self._having[before]
        self._having[load] = self._having.get(load, 0) | bit
        self.load[member] = load


def _subscribers(member_ids: Sequence[str], topics: Mapping[str, frozenset[str]]) -> dict[str, int]:
    """Return each topic's subscribers as a bit set; bit n represents member n of the sequence."""
    alike: dict[frozenset[str], int] = {}
    for index, member_id in enumerate(member_ids):
        alike[topics[member_id]] = alike.get(topics[member_id], 0) | 1 << index
    subscribers: dict[str, int] = {}
    for wanted, members in alike.items():
        for topic in wanted:
            subscribers[topic] = subscribers.get(topic, 0) | members
    return subscribers


def _deal(partitions: Mapping[str, int], owned: Mapping[str, Sequence[TopicPartition]], loads: _Loads) -> None:
    """Assign free partitions, topics with the fewest subscribers first: the others have more candidates left."""
    taken = {partition for share in owned.values() for partition in share}
    for topic in sorted(loads.subscribers, key=lambda topic: (loads.subscribers[topic].bit_count(), topic)):
        for number in range(partitions.get(topic, 0)):
            if (topic, number) not in taken:
                lightest = loads.lightest(topic)
                assert lightest is not None, "a topic is listed because someone subscribes to it"
                loads.give(lightest, topic, number)


def _level(loads: _Loads) -> None:
    """Move single partitions away from the most loaded members until no move improves the balance.

    The loop terminates because each move lowers the sum of the squared loads.
    """
    moved = True
    while moved:
        moved = False
        for member in sorted(range(len(loads.load)), key=lambda member: (-loads.load[member], member)):
            moved |= _unload(loads, member)


def _unload(loads: _Loads, member: int) -> bool:
    moved = False
    for topic, numbers in loads.held[member].items():
        while numbers and (lighter := loads.lightest(topic, below=loads.load[member] - 1)) is not None:
            loads.give(lighter, topic, loads.take(member, topic))
            moved = True
    return moved
