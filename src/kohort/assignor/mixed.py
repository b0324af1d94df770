"""Sticky and balanced where members ask for different topics.

The result is balanced in the sense of Java's general assignment (KIP-54): nobody has two partitions more than a
member that could take one of them. Sets of members are integers, one bit each: the lightest subscriber of a topic is
then a few ANDs away, however the subscriptions overlap.
"""

from collections.abc import Mapping, Sequence

from kohort.model import TopicPartition


def assign_mixed(
    partitions: Mapping[str, int],
    topics: Mapping[str, frozenset[str]],
    owned: Mapping[str, Sequence[TopicPartition]],
) -> dict[str, list[TopicPartition]]:
    """Let members keep what they own, deal out the rest, then move single partitions until nobody is overloaded.

    `topics` has an entry for every member; `owned` is without contradictions and only of subscribed topics.
    """
    loads = _Loads(sorted(topics), topics, owned)
    _deal(partitions, owned, loads)
    _level(loads)
    return loads.shares()


class _Loads:
    """Who has how much, and who of a topic's subscribers has the least."""

    def __init__(
        self,
        member_ids: Sequence[str],
        topics: Mapping[str, frozenset[str]],
        owned: Mapping[str, Sequence[TopicPartition]],
    ) -> None:
        self.member_ids = member_ids
        self.held: list[dict[str, list[int]]] = [{} for _ in member_ids]
        """By member, then by topic: owned partitions first, in the order in which they came."""
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
        """Take away the partition of that topic that came last, so that what it owned before stays longest."""
        self._set(member, self.load[member] - 1)
        return self.held[member][topic].pop()

    def lightest(self, topic: str, below: int | None = None) -> int | None:
        """The subscriber with the least, the first of several; None where all have at least `below`."""
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
    """By topic; member n of the sequence is bit n."""
    alike: dict[frozenset[str], int] = {}
    for index, member_id in enumerate(member_ids):
        alike[topics[member_id]] = alike.get(topics[member_id], 0) | 1 << index
    subscribers: dict[str, int] = {}
    for wanted, members in alike.items():
        for topic in wanted:
            subscribers[topic] = subscribers.get(topic, 0) | members
    return subscribers


def _deal(partitions: Mapping[str, int], owned: Mapping[str, Sequence[TopicPartition]], loads: _Loads) -> None:
    """Topics with the fewest subscribers first: those of the others can still be put elsewhere."""
    taken = {partition for share in owned.values() for partition in share}
    for topic in sorted(loads.subscribers, key=lambda topic: (loads.subscribers[topic].bit_count(), topic)):
        for number in range(partitions.get(topic, 0)):
            if (topic, number) not in taken:
                lightest = loads.lightest(topic)
                assert lightest is not None, "a topic is listed because someone subscribes to it"
                loads.give(lightest, topic, number)


def _level(loads: _Loads) -> None:
    """Move single partitions from the heaviest down, until no move makes two members more alike.

    Ends because each move lowers the sum of the squared loads.
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
