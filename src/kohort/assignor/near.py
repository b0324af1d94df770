"""Range assignment that prefers replicas in the member's rack, without loss of balance (KIP-881).

Each member first takes partitions with a replica in its rack, up to the size of its plain range.
The remaining partitions are assigned in ranges as usual. Topics with the same subscribers and
partition count are co-partitioned: one member gets partition n of all of them if it has a replica
of each in its rack.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kohort.model import TopicPartition

Racks = Mapping[TopicPartition, frozenset[str]]
"""Racks of each partition's replicas; a missing partition has no known rack."""


def near_ranges(
    partitions: Mapping[str, int],
    subscribers: Mapping[str, Sequence[str]],
    rack_of: Mapping[str, str],
    racks: Racks,
) -> dict[str, list[TopicPartition]] | None:
    """Return each subscriber's sorted share, or None if racks make no difference and plain ranges suffice.

    `subscribers` lists each topic's members in order. A member without a rack is not in `rack_of`,
    and every partition counts as near to it.
    """
    topics = [
        _Topic(name, tuple(members), rack_of, [racks.get(TopicPartition(name, n), _NOWHERE) for n in range(count)])
        for name, members in subscribers.items()
        if (count := partitions.get(name, 0))
    ]
    if not any(topic.matters for topic in topics):
        return None
    for alike in _cut_alike(topics):
        if len(alike) > 1:
            _give_together(alike)
        elif alike[0].matters:
            _give_ranges(alike[0], alike[0].near)
    for topic in topics:
        _give_ranges(topic, lambda member_id, number: True)
    shares: dict[str, list[TopicPartition]] = {m: [] for members in subscribers.values() for m in members}
    for topic in topics:
        for member_id, numbers in topic.given.items():
            shares[member_id] += [TopicPartition(topic.name, number) for number in numbers]
    return {member_id: sorted(share) for member_id, share in shares.items()}


_NOWHERE: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Topic:
    """Assignment of one topic in progress."""

    name: str
    members: tuple[str, ...]
    rack_of: Mapping[str, str]
    racks: list[frozenset[str]]
    left: dict[int, None] = field(init=False)
    given: dict[str, list[int]] = field(init=False)
    short: int = field(init=False)
    longer: int = field(init=False)
    """Number of members that may still get `short` + 1 partitions."""

    def __post_init__(self) -> None:
        self.left = dict.fromkeys(range(len(self.racks)))
        self.given = {member_id: [] for member_id in self.members}
        self.short, self.longer = divmod(len(self.racks), len(self.members))

    @property
    def matters(self) -> bool:
        """Whether racks affect the assignment.

        They do if some members' racks hold replicas of the topic, and not every partition has a
        replica in all of its racks.
        """
        everywhere = _NOWHERE.union(*self.racks)
        ours = {self.rack_of[member_id] for member_id in self.members if member_id in self.rack_of}
        return not ours.isdisjoint(everywhere) and any(racks != everywhere for racks in self.racks)

    def near(self, member_id: str, number: int) -> bool:
        rack = self.rack_of.get(member_id)
        return rack is None or rack in self.racks[number]

    def room(self, member_id: str) -> int:
        """Return the number of partitions that the member may still get."""
        return max(0, self.short + (self.longer > 0) - len(self.given[member_id]))

    def give(self, member_id: str, numbers: Iterable[int]) -> None:
        for number in numbers:
            del self.left[number]
            self.given[member_id].append(number)
        self.longer -= len(self.given[member_id]) > self.short


def _cut_alike(topics: Iterable[_Topic]) -> Iterable[list[_Topic]]:
    """Return groups of topics that have the same subscribers and partition count."""
    groups: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for topic in topics:
        groups.setdefault((topic.members, len(topic.racks)), []).append(topic)
    return groups.values()


def _give_together(topics: Sequence[_Topic]) -> None:
    """Assign each partition number, in all topics at once, to the first member that is near all and has room in all."""
    first = topics[0]
    with_room = list(first.members)
    for number in range(len(first.racks)):
        for member_id in with_room:
            if all(topic.near(member_id, number) and topic.room(member_id) for topic in topics):
                for topic in topics:
                    topic.give(member_id, (number,))
                break
        with_room = [member_id for member_id in with_room if first.room(member_id)]


def _give_ranges(topic: _Topic, may_have: Callable[[str, int], bool]) -> None:
    """Let each member in turn take the first partitions that it may have, up to its room."""
    for member_id in topic.members:
        room = topic.room(member_id)
        numbers: list[int] = []
        for number in topic.left:
            if len(numbers) == room:
                break
            if may_have(member_id, number):
                numbers.append(number)
        if numbers:
            topic.give(member_id, numbers)
