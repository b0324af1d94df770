"""Assignor `uniform` (KIP-848): members own equally many partitions, with few moves.

Free partitions go to the least loaded members. Then single partitions move from overloaded members
until no member has two or more partitions more than another member that could take one of them. If
racks are known (KIP-881), they decide between equally loaded members.
"""

from collections.abc import Mapping, Sequence, Set
from itertools import islice

from kohort.assignor.server.api import MemberShape, Target, TopicShape, why_nothing
from kohort.assignor.server.levels import Member, MemberClass, Topic
from kohort.assignor.server.roster import Roster
from kohort.model import UUID


class UniformAssignor:
    """Sticky and even, for equal and for different subscriptions."""

    name = "uniform"

    def plan(self) -> "UniformPlan":
        """See `ServerAssignor.plan`."""
        return UniformPlan()


_MANY = 64
"""Minimum number of partitions from which a sorted list is kept, instead of a search for the last partition."""


class UniformPlan:
    """See `Plan`.

    If all members have the same subscription, adding or removing a member takes as many steps as
    partitions move.
    """

    def __init__(self) -> None:
        self.roster = Roster()
        self._in_order: dict[tuple[str, UUID], list[int]] = {}
        """In one update: sorted partitions of members that give many away."""
        self._near: dict[frozenset[str], int] = {}
        """In one update: kinds in one of a partition's racks, by the set of racks."""

    def set_topic(self, topic_id: UUID, topic: TopicShape) -> None:
        """See `Plan.set_topic`."""
        self.roster.set_topic(topic_id, topic)

    def remove_topic(self, topic_id: UUID) -> None:
        """See `Plan.remove_topic`."""
        self.roster.remove_topic(topic_id)

    def set_member(self, member_id: str, member: MemberShape) -> None:
        """See `Plan.set_member`."""
        self.roster.set_member(member_id, member)

    def remove_member(self, member_id: str) -> None:
        """See `Plan.remove_member`."""
        self.roster.remove_member(member_id)

    def rename_member(self, old: str, new: str) -> None:
        """See `Plan.rename_member`."""
        self.roster.rename_member(old, new)

    def restore(self, targets: Mapping[str, Target]) -> None:
        """See `Plan.restore`."""
        self.roster.restore(targets)

    def update(self) -> Mapping[str, Target]:
        """See `Plan.update`."""
        self._near, self._in_order = {}, {}
        self.roster.collect_gone()
        self._deal()
        self._level()
        self._settle()
        return self.roster.take_changed_targets()

    def reason(self, member_id: str) -> str:
        """See `Plan.reason`."""
        return even_share(self.roster, member_id)

    def _settle(self) -> None:
        """Hook for subclasses that improve the assignment without changing its balance."""

    def _deal(self) -> None:
        """Assign topics with the fewest subscribers first: partitions of the others have more candidates left."""
        roster, levels = self.roster, self.roster.levels
        topics = [topic for topic in roster.to_deal if topic.free and topic.kinds]
        if len(roster.pools()) > 1:
            topics.sort(key=lambda topic: sum(kind.size for kind in levels.each(topic.kinds)))
        for topic in topics:
            self._deal_topic(topic)
        roster.to_deal.clear()

    def _deal_topic(self, topic: Topic) -> None:
        """Assign the topic's free partitions to the least loaded subscribers, preferably near ones."""
        levels = self.roster.levels
        topic.free.sort()
        groups = self._by_nearness(topic, topic.free)
        topic.free = []
        while groups:
            level, lowest = levels.lowest(topic.kinds)
            kinds = next((kinds for kinds in groups if lowest & kinds), None)
            if kinds is None:
                kinds = max(groups, key=lambda kinds: len(groups[kinds]))
            winners = next(levels.each(lowest & kinds or lowest))
            self._deal_some(topic, groups[kinds], winners, level)
            if not groups[kinds]:
                del groups[kinds]

    def _deal_some(self, topic: Topic, numbers: list[int], kind: MemberClass, level: int) -> None:
        """Assign one partition to each member of this kind at this level, until either runs out.

        If no other kind is at this level, each member gets as many partitions at once as it needs
        to reach the next level.
        """
        roster, levels = self.roster, self.roster.levels
        alone = levels.lowest(topic.kinds)[1] == kind.bit
        winners = levels.take_some(kind, level, len(numbers))
        rounds = 1
        if alone and len(numbers) >= 2 * len(winners):
            others = levels.highest(topic.kinds)[1]
            room = levels.lowest(others)[0] - level if others else len(numbers)
            rounds = min(room, len(numbers) // len(winners))
        given = numbers[: rounds * len(winners)]
        if rounds == 1:
            roster.give(topic, given, winners)
        else:
            for index, member in enumerate(winners):
                roster.give_all(topic, given[index :: len(winners)], member)
        levels.put_all(kind, level + rounds, winners)
        roster.hold(kind, topic, len(given))
        del numbers[: len(given)]

    def _by_nearness(self, topic: Topic, numbers: Sequence[int]) -> dict[int, list[int]]:
        """Return the partitions by the kinds that are near them; one group if racks are unknown."""
        racks = topic.shape.racks
        if racks is None:
            return {topic.kinds: list(numbers)}
        placed: dict[frozenset[str], list[int]] = {}
        for number in numbers:
            placed.setdefault(racks[number], []).append(number)
        groups: dict[int, list[int]] = {}
        for alike in placed.values():
            groups.setdefault(self.near_to(topic, alike[0]), []).extend(alike)
        return groups

    def near_to(self, topic: Topic, number: int) -> int:
        """Return the kinds in the rack of one of the partition's replicas, subscribed to the topic or not."""
        if topic.shape.racks is None:
            return 0
        racks = topic.shape.racks[number]
        near = self._near.get(racks)
        if near is None:
            near = self._near[racks] = self.roster.kinds_in(racks)
        return near

    def _level(self) -> None:
        """Move single partitions until no move improves the balance.

        The loop terminates because each move lowers the sum of the squared loads.
        """
        roster = self.roster
        while roster.uneven:
            uneven, roster.uneven = roster.uneven, 0
            for kinds, pool in roster.pools().items():
                if kinds & uneven:
                    self._level_pool(kinds, pool)

    def _level_pool(self, kinds: int, pool: Sequence[Topic]) -> None:
        """Balance the topics to which exactly these kinds subscribe, from the highest load down."""
        levels = self.roster.levels
        only_pool = len(self.roster.pools()) == 1
        level, here = levels.highest(kinds)
        while level > levels.lowest(kinds)[0] + 1:
            owners = list(levels.each(here)) if only_pool else self._owners(pool, here)
            for kind in owners:
                self._unload(kind, level, kinds, only_pool)
            level, here = levels.highest(kinds, below=level)

    def _owners(self, pool: Sequence[Topic], kinds: int) -> list[MemberClass]:
        """Return the classes of members that own partitions of the pool, those with most per member first.

        `kinds` is a set of classes with one bit for each (see `levels.py`).
        """
        shares = [(sum(kind.held.get(topic, 0) for topic in pool), kind) for kind in self.roster.levels.each(kinds)]
        return [
            kind
            for share, kind in sorted(shares, key=lambda share_and_kind: -share_and_kind[0] / share_and_kind[1].size)
            if share
        ]

    def _unload(self, kind: MemberClass, level: int, kinds: int, only_pool: bool) -> None:
        """Let each member of this kind and load give one partition of the pool, while others have two fewer."""
        levels = self.roster.levels
        members = kind.having[level]
        # A member that gives a partition leaves the list, and one that was already visited takes
        # its position.
        for at in range(len(members) - 1, -1, -1):
            low, lowest = levels.lowest(kinds)
            if level <= low + 1:
                break
            giver = members[at]
            held = giver.target if only_pool else self._held(giver, kinds)
            if held:
                if kind.rack is None:
                    topic_id, number, near = *self._last(giver, held), 0
                else:
                    topic_id, number, near = self._farthest(held, kind, lowest)
                receiver = next(levels.each(near or lowest)).having[low][-1]
                self.roster.hand_over(self.roster.topics[topic_id], number, giver, receiver)

    def _held(self, member: Member, kinds: int) -> Mapping[UUID, Set[int]]:
        """Return the member's partitions of the topics to which exactly these kinds subscribe."""
        topics = self.roster.topics
        return {topic_id: n for topic_id, n in member.target.items() if topics[topic_id].kinds == kinds}

    def _last(self, giver: Member, held: Mapping[UUID, Set[int]]) -> tuple[UUID, int]:
        """Return the last partition of the topic with the most partitions.

        In a large topic, it is the last of those that the member owned when its list was sorted.
        """
        sizes = list(map(len, held.values()))
        topic_id = next(islice(held, sizes.index(max(sizes)), None))
        numbers = held[topic_id]
        if len(numbers) < _MANY:
            return topic_id, max(numbers)
        order = self._in_order.get((giver.id, topic_id), [])
        while order and order[-1] not in numbers:
            order.pop()
        if not order:
            order = self._in_order[giver.id, topic_id] = sorted(numbers)
        return topic_id, order[-1]

    def _farthest(self, held: Mapping[UUID, Set[int]], giver: MemberClass, lowest: int) -> tuple[UUID, int, int]:
        """Return the best partition to give, and the kinds in `lowest` that are near it.

        The best partition is not near the giver but near a kind in `lowest`.
        """
        best = (-2, 0, 0)
        for topic_id, numbers in held.items():
            topic = self.roster.topics[topic_id]
            # The first partitions of a large topic suffice: visiting all for each move would take
            # far too long.
            for number in islice(numbers, _MANY):
                near = self.near_to(topic, number)
                gain = bool(near & lowest) - bool(near & giver.bit)
                if (gain, len(numbers), number) > best:
                    best = (gain, len(numbers), number)
                    found = (topic_id, number, near & lowest)
        return found


def even_share(roster: Roster, member_id: str) -> str:
    """Describe the member's share relative to members with the same subscription, and how much of it is near."""
    member = roster.members[member_id]
    shares = roster.shares(member.kind.topics)
    if shares is None:
        return why_nothing(member.shape)
    partitions, least, most = shares
    between = f"{least}" if least == most else f"{least} to {most}"
    said = f"{member.load} of {partitions} partitions; members that ask for the same have {between}"
    near = roster.near(member)
    return said if near is None else f"{said}; {near} of them have a replica in rack {member.kind.rack}"
