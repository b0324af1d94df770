"""A set of partitions by topic ID, for owned, target and revoked partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set

from kohort.assignor.server import kept
from kohort.model import UUID


class Partitions:
    """An immutable set of partitions with the operators of `frozenset`.

    It is grouped by topic, as in the log and on the wire, so each operation is one operation of sets
    per topic. No topic in it is empty.
    """

    __slots__ = ("by_topic",)

    def __init__(self, by_topic: Mapping[UUID, Set[int]]) -> None:
        """Take over `by_topic` and its sets. The caller must not modify them afterwards."""
        self.by_topic = by_topic

    @classmethod
    def of(cls, pairs: Iterable[tuple[UUID, Iterable[int]]]) -> Partitions:
        """Create a set from the wire or the log. Entries for the same topic are merged."""
        by_topic: dict[UUID, frozenset[int]] = {}
        for topic_id, partitions in pairs:
            found = frozenset(partitions)
            if found:
                by_topic[topic_id] = by_topic[topic_id] | found if topic_id in by_topic else found
        return cls(by_topic) if by_topic else NOTHING

    def kept(self) -> Partitions:
        """Return an equal set that takes little memory, for the state of a group."""
        return _made({topic_id: kept(numbers) for topic_id, numbers in self.by_topic.items()})

    def __and__(self, other: Partitions) -> Partitions:
        if other is self:  # a member that has its target, as most do
            return self
        theirs = other.by_topic
        if not theirs or not self.by_topic:
            return NOTHING
        return _made({t: both for t, own in self.by_topic.items() if t in theirs and (both := own & theirs[t])})

    def __sub__(self, other: Partitions) -> Partitions:
        if other is self:
            return NOTHING
        theirs = other.by_topic
        if not theirs or not self.by_topic:
            return self
        return _made({t: rest for t, own in self.by_topic.items() if (rest := own - theirs.get(t, _NONE))})

    def __or__(self, other: Partitions) -> Partitions:
        if not other:
            return self
        if not self:
            return other
        both = dict(self.by_topic)
        for topic_id, partitions in other.by_topic.items():
            both[topic_id] = both[topic_id] | partitions if topic_id in both else partitions
        return Partitions(both)

    def __le__(self, other: Partitions) -> bool:
        theirs = other.by_topic
        for topic_id, own in self.by_topic.items():  # noqa: SIM110 (a generator takes twice as long)
            if not own <= theirs.get(topic_id, _NONE):
                return False
        return True

    def __bool__(self) -> bool:
        return bool(self.by_topic)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partitions) and self.by_topic == other.by_topic

    def __hash__(self) -> int:
        return hash(frozenset(self.by_topic.items()))

    def __iter__(self) -> Iterator[tuple[UUID, int]]:
        return ((topic_id, partition) for topic_id, partitions in self.by_topic.items() for partition in partitions)

    def __len__(self) -> int:
        return sum(map(len, self.by_topic.values()))

    def __repr__(self) -> str:
        return f"Partitions({ {topic_id: sorted(own) for topic_id, own in self.by_topic.items()} })"

    def overlaps(self, other: Partitions) -> bool:
        """Return whether the sets have a partition in common."""
        theirs = other.by_topic
        return any(t in theirs and not own.isdisjoint(theirs[t]) for t, own in self.by_topic.items())

    def of_topics(self, topic_ids: Collection[UUID]) -> Partitions:
        """Return the partitions of these topics, or the set itself if that is all of them."""
        for topic_id in self.by_topic:
            if topic_id not in topic_ids:
                break
        else:
            return self
        return _made({t: own for t, own in self.by_topic.items() if t in topic_ids})


def _made(by_topic: dict[UUID, Set[int]]) -> Partitions:
    return Partitions(by_topic) if by_topic else NOTHING


_NONE: frozenset[int] = frozenset()
NOTHING = Partitions({})
