"""Every member has as many partitions as the others, and moves are few (Kafka's `uniform`, KIP-848).

Free partitions go to whoever has the least; then single partitions move from those who have too many, until nobody has
two more than a member that could take one of them. Where racks are known (KIP-881) they decide between equals.
"""

from collections.abc import Mapping, Sequence, Set
from itertools import islice

from kohort.assignor.server.api import MemberShape, Target, TopicShape, why_nothing
from kohort.assignor.server.levels import Kind, Member, Topic
from kohort.assignor.server.roster import Roster
from kohort.model import UUID


class UniformAssignor:
    """Sticky and even, for equal and for different subscriptions."""

    name = "uniform"

    def plan(self) -> "UniformPlan":
        """See `ServerAssignor.plan`."""
        return UniformPlan()


_MANY = 64
"""From so many partitions on, the last is not looked for each time."""


class UniformPlan:
    """See `Plan`. With one subscription, a member that comes or goes costs as many steps as partitions move."""

    def __init__(self) -> None:
        self.roster = Roster()
        self._in_order: dict[tuple[str, UUID], list[int]] = {}
        """What those have who give many away, sorted once. Of this update."""
        self._near: dict[frozenset[str], int] = {}
        """By the racks of a partition, the kinds that are in one of them. Of this update."""

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
        return self.roster.told()

    def reason(self, member_id: str) -> str:
        """See `Plan.reason`."""
        return even_share(self.roster, member_id)

    def _settle(self) -> None:
        """A place for what comes after evenness."""

    def _deal(self) -> None:
        """Topics with the fewest subscribers first: partitions of the others can still be put elsewhere."""
        roster, levels = self.roster, self.roster.levels
        topics = [topic for topic in roster.to_deal if topic.free and topic.kinds]
        if len(roster.pools()) > 1:
            topics.sort(key=lambda topic: sum(kind.size for kind in levels.each(topic.kinds)))
        for topic in topics:
            self._deal_topic(topic)
        roster.to_deal.clear()

    def _deal_topic(self, topic: Topic) -> None:
        """Level by level, to members near the partition as long as there are some at the lowest level."""
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

    def _deal_some(self, topic: Topic, numbers: list[int], kind: Kind, level: int) -> None:
        """One partition to each member of this kind at this level, as long as there are some of both.

        Where nobody else is at this level they get as many at once as bring them to the next.
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
        """The partitions by the kinds that are near to them; one group where nothing is known of racks."""
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
        """The kinds in the rack of one of the partition's replicas, whether they subscribe to the topic or not."""
        if topic.shape.racks is None:
            return 0
        racks = topic.shape.racks[number]
        near = self._near.get(racks)
        if near is None:
            near = self._near[racks] = self.roster.kinds_in(racks)
        return near

    def _level(self) -> None:
        """Move single partitions until no move makes two members more alike.

        Ends because each move lowers the sum of the squared loads.
        """
        roster = self.roster
        while roster.uneven:
            uneven, roster.uneven = roster.uneven, 0
            for kinds, pool in roster.pools().items():
                if kinds & uneven:
                    self._level_pool(kinds, pool)

    def _level_pool(self, kinds: int, pool: Sequence[Topic]) -> None:
        """The same for the topics that exactly these kinds subscribe to, from the highest load down."""
        levels = self.roster.levels
        only_pool = len(self.roster.pools()) == 1
        level, here = levels.highest(kinds)
        while level > levels.lowest(kinds)[0] + 1:
            owners = list(levels.each(here)) if only_pool else self._owners(pool, here)
            for kind in owners:
                self._unload(kind, level, kinds, only_pool)
            level, here = levels.highest(kinds, below=level)

    def _owners(self, pool: Sequence[Topic], kinds: int) -> list[Kind]:
        """Those of the kinds whose members have something of the pool, first those where most members do."""
        shares = [(sum(kind.held.get(topic, 0) for topic in pool), kind) for kind in self.roster.levels.each(kinds)]
        return [kind for share, kind in sorted(shares, key=lambda one: -one[0] / one[1].size) if share]

    def _unload(self, kind: Kind, level: int, kinds: int, only_pool: bool) -> None:
        """Let each member of a kind and load give one partition of the pool, while some have two less."""
        levels = self.roster.levels
        members = kind.having[level]
        # Whoever gives leaves the list, and one that was looked at takes its place.
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
        """What a member has of the topics that exactly these kinds subscribe to."""
        topics = self.roster.topics
        return {topic_id: n for topic_id, n in member.target.items() if topics[topic_id].kinds == kinds}

    def _last(self, giver: Member, held: Mapping[UUID, Set[int]]) -> tuple[UUID, int]:
        """Of the topic with the most partitions, the last; of many, the last that it had when it began to give."""
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

    def _farthest(self, held: Mapping[UUID, Set[int]], giver: Kind, lowest: int) -> tuple[UUID, int, int]:
        """What is far for the giver and near to one of the `lowest`, as good as there is, and who these are."""
        best = (-2, 0, 0)
        for topic_id, numbers in held.items():
            topic = self.roster.topics[topic_id]
            # Of many, the first are a good enough choice: to look at all for each move would take forever.
            for number in islice(numbers, _MANY):
                near = self.near_to(topic, number)
                gain = bool(near & lowest) - bool(near & giver.bit)
                if (gain, len(numbers), number) > best:
                    best = (gain, len(numbers), number)
                    found = (topic_id, number, near & lowest)
        return found


def even_share(roster: Roster, member_id: str) -> str:
    """What a member has beside those with the same subscription, and how much of it is near."""
    member = roster.members[member_id]
    shares = roster.shares(member.kind.topics)
    if shares is None:
        return why_nothing(member.shape)
    partitions, least, most = shares
    between = f"{least}" if least == most else f"{least} to {most}"
    said = f"{member.load} of {partitions} partitions; members that ask for the same have {between}"
    near = roster.near(member)
    return said if near is None else f"{said}; {near} of them have a replica in rack {member.kind.rack}"
