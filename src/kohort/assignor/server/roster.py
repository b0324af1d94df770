"""What every plan that counts partitions keeps: topics, members, who has what, and what changed since the last update.

A target that was told belongs to others too, so the first change after an update copies it.
"""

from collections.abc import Collection, Mapping, Set
from typing import cast

from kohort.assignor.server.api import MemberShape, Target, TopicShape
from kohort.assignor.server.levels import Kind, Levels, Member, Singletons, Topic
from kohort.model import UUID

_MANY = 64
"""From so many partitions of a topic on, one more or less is not worth a new frozenset."""


class Roster:
    """The bookkeeping of a group. It knows who could have what, and leaves to others who should."""

    def __init__(self) -> None:
        self.topics: dict[UUID, Topic] = {}
        self.members: dict[str, Member] = {}
        self.levels = Levels()
        self.to_deal: dict[Topic, None] = {}
        """Topics that may have both free partitions and subscribers."""
        self.uneven = 0
        """Kinds with a member that is new, or has more or less than before."""
        self._kinds: dict[tuple[frozenset[UUID], str | None], Kind] = {}
        self._pools: dict[int, list[Topic]] | None = None
        self._gone: dict[UUID, Topic] = {}
        """Removed topics that members may still have."""
        self._before: dict[str, Mapping[UUID, Set[int]] | None] = {}
        """Targets as they were told, of those whose target was touched since; None for members that nobody knew."""
        self._open: dict[Member, None] = {}
        """Members with a set in their target that can still be changed."""
        self._turn = 0
        """Counts what was told: a target of this turn is still ours alone."""
        self._one = Singletons()
        self._shares: dict[frozenset[UUID], tuple[int, int, int] | None] = {}

    def set_topic(self, topic_id: UUID, shape: TopicShape) -> None:
        """See `Plan.set_topic`. One that shrank loses what it had: Kafka knows no such topic."""
        known = self.topics.get(topic_id)
        if known is not None and shape.partitions < known.shape.partitions:
            self.remove_topic(topic_id)
        self.collect_gone({topic_id})
        topic = self.topics.get(topic_id)
        if topic is None:
            topic = self.topics[topic_id] = Topic(topic_id, shape)
            for kind in self._kinds.values():
                if topic_id in kind.topics:
                    topic.kinds |= kind.bit
            self._pools = None
        else:
            topic.free += range(topic.shape.partitions, shape.partitions)
            topic.shape = shape
        self.to_deal[topic] = None

    def remove_topic(self, topic_id: UUID) -> None:
        """See `Plan.remove_topic`. Members lose it when it is collected, all such topics in one go."""
        topic = self.topics.pop(topic_id, None)
        if topic is None:
            return
        self.to_deal.pop(topic, None)
        self._pools = None
        if any(topic in kind.held for kind in self.levels.each(topic.kinds)):
            self._gone[topic_id] = topic

    def set_member(self, member_id: str, shape: MemberShape) -> None:
        """See `Plan.set_member`. What it has of topics that it no longer asks for becomes free."""
        topics = frozenset[UUID]() if shape.drained else shape.topics
        kind = self._kinds.get((topics, shape.rack))
        member = self.members.get(member_id)
        if member is None:
            kind = kind or self._new_kind(topics, shape.rack)
            member = self.members[member_id] = Member(member_id, kind.alike(shape), kind)
            self._before.setdefault(member_id, None)
        else:
            member.shape = shape
            if member.kind is kind:
                return
            self._leave(member, keep=topics)
            member.kind = kind or self._new_kind(topics, shape.rack)
        self._enter(member)

    def remove_member(self, member_id: str) -> None:
        """See `Plan.remove_member`. What it had becomes free."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._leave(member, keep=())
            self._before[member_id] = None

    def rename_member(self, old: str, new: str) -> None:
        """See `Plan.rename_member`."""
        self.remove_member(new)
        member = self.members.pop(old, None)
        if member is None:
            return
        self._before.pop(new, None)
        self.members[new] = member
        member.id = new
        if old in self._before:
            self._before[new] = self._before.pop(old)

    def restore(self, targets: Mapping[str, Target]) -> None:
        """See `Plan.restore`. Where two claim a partition the first has it."""
        taken: dict[Topic, set[int]] = {}
        for member_id, target in targets.items():
            member = self.members.get(member_id)
            if member is None:
                continue
            assert not member.target, "a plan is restored before its first update"
            self._before[member_id] = target
            self.levels.take(member)
            member.target = self._claim(member.kind, target, taken)
            self._enter(member)
            member.kind.size -= 1
        for topic, numbers in taken.items():
            topic.free = [number for number in range(topic.shape.partitions) if number not in numbers]

    def collect_gone(self, topic_ids: Collection[UUID] | None = None) -> None:
        """Take topics that were removed from those who have them: all, or all if one of these is among them."""
        if not self._gone or (topic_ids is not None and self._gone.keys().isdisjoint(topic_ids)):
            return
        for member in self.members.values():
            if lost := member.target.keys() & self._gone.keys():
                target = self._own(member)
                for topic_id in lost:
                    numbers = target.pop(topic_id)
                    self.levels.move(member, member.load - len(numbers))
                    self.hold(member.kind, self._gone[topic_id], -len(numbers))
                self.uneven |= member.kind.bit
        self._gone = {}

    def told(self) -> dict[str, Target]:
        """The targets that changed since the last call, of those who are still here. They may not change any more."""
        for one in self._open:
            one.target = {topic_id: frozenset(numbers) for topic_id, numbers in one.target.items()}
        self._open = {}
        self._shares = {}
        self._one = Singletons()
        changed: dict[str, Target] = {}
        for member_id, before in self._before.items():
            member = self.members.get(member_id)
            if member is not None and member.target != before:
                changed[member_id] = cast("Target", member.target)
        self._before = {}
        self._turn += 1
        return changed

    def give(self, topic: Topic, numbers: Collection[int], members: Collection[Member]) -> None:
        """Each number to one member, in order. Which load each of them then has is for the caller to say."""
        topic_id, one, turn = topic.id, self._one, self._turn
        for number, member in zip(numbers, members, strict=True):
            target = member.target if member.turn == turn else self._own(member)
            had = target.get(topic_id)
            if had is None:
                target[topic_id] = one[number]
            elif len(had) < _MANY:
                target[topic_id] = had | one[number]
            elif isinstance(had, set):
                had.add(number)
            else:
                target[topic_id] = {*had, number}
                self._open[member] = None

    def give_all(self, topic: Topic, numbers: Collection[int], member: Member) -> None:
        """All to one member; the rest is as for `give`."""
        target = self._own(member)
        target[topic.id] = frozenset(numbers).union(target.get(topic.id, ()))

    def hold(self, kind: Kind, topic: Topic, change: int) -> None:
        """Members of a kind now have so many more of a topic's partitions."""
        held = kind.held.get(topic, 0) + change
        if held:
            kind.held[topic] = held
        else:
            del kind.held[topic]
        self.uneven |= kind.bit

    def hand_over(self, topic: Topic, number: int, giver: Member, receiver: Member) -> None:
        """Move one partition."""
        self.pass_on(topic, number, giver, receiver)
        self.levels.move(giver, giver.load - 1)
        self.levels.move(receiver, receiver.load + 1)

    def pass_on(self, topic: Topic, number: int, giver: Member, receiver: Member) -> None:
        """The same, but for the loads: somebody else makes up for it."""
        target = self._own(giver)
        had = target[topic.id]
        if isinstance(had, set):
            had.discard(number)
        elif len(had) < _MANY:
            target[topic.id] = had - self._one[number]
        else:
            target[topic.id] = set(had) - {number}
            self._open[giver] = None
        if not target[topic.id]:
            del target[topic.id]
        self.give(topic, (number,), (receiver,))
        self.hold(giver.kind, topic, -1)
        self.hold(receiver.kind, topic, 1)

    def pools(self) -> dict[int, list[Topic]]:
        """The topics by who subscribes to them; those that nobody subscribes to are not among them."""
        if self._pools is None:
            self._pools = {}
            for topic in self.topics.values():
                if topic.kinds:
                    self._pools.setdefault(topic.kinds, []).append(topic)
        return self._pools

    def kinds_in(self, racks: Collection[str]) -> int:
        """The kinds whose members are in one of these racks."""
        near = 0
        for kind in self._kinds.values():
            if kind.rack in racks:
                near |= kind.bit
        return near

    def shares(self, topics: frozenset[UUID]) -> tuple[int, int, int] | None:
        """How many partitions a subscription comes to, and the least and the most that its members have.

        None where none of the topics exists. Once computed it counts until the next update.
        """
        if topics not in self._shares:
            exist = [self.topics[topic_id].shape.partitions for topic_id in topics if topic_id in self.topics]
            loads = [load for kind in self._kinds.values() if kind.topics == topics for load in kind.having]
            self._shares[topics] = (sum(exist), min(loads), max(loads)) if exist and loads else None
        return self._shares[topics]

    def near(self, member: Member) -> int | None:
        """How many of a member's partitions have a replica in its rack; None where nobody knows."""
        rack = member.kind.rack
        topics = [(self.topics[topic_id].shape.racks, numbers) for topic_id, numbers in member.target.items()]
        if rack is None or all(racks is None for racks, _ in topics):
            return None
        return sum(rack in racks[number] for racks, numbers in topics if racks for number in numbers)

    def _own(self, member: Member) -> dict[UUID, Set[int]]:
        """The member's target, copied if others have it."""
        if member.turn != self._turn:
            self._before.setdefault(member.id, member.target)
            member.target = dict(member.target)
            member.turn = self._turn
        return member.target

    def _claim(self, kind: Kind, target: Target, taken: dict[Topic, set[int]]) -> dict[UUID, Set[int]]:
        """As much of a restored target as the member may have and nobody has taken yet; takes it."""
        claimed: dict[UUID, Set[int]] = {}
        for topic_id, numbers in target.items():
            topic = self.topics.get(topic_id)
            if topic is not None and topic.kinds & kind.bit:
                others = taken.setdefault(topic, set())
                free = frozenset(n for n in numbers - others if 0 <= n < topic.shape.partitions)
                if free:
                    others |= free
                    claimed[topic_id] = numbers if len(free) == len(numbers) else free
        return claimed

    def _enter(self, member: Member) -> None:
        """Count a member in, with what it has."""
        member.kind.size += 1
        self.levels.put(member, sum(map(len, member.target.values())))
        self._count(member, 1)

    def _leave(self, member: Member, keep: Collection[UUID]) -> None:
        """Count a member out; what it has of other topics than `keep` becomes free."""
        kind = member.kind
        self.levels.take(member)
        self._count(member, -1)
        for topic_id in [topic_id for topic_id in member.target if topic_id not in keep]:
            numbers = self._own(member).pop(topic_id)
            if topic := self.topics.get(topic_id):
                topic.free += numbers
                self.to_deal[topic] = None
        kind.size -= 1
        if not kind.size:
            self._remove_kind(kind)

    def _count(self, member: Member, sign: int) -> None:
        for topic_id, numbers in member.target.items():
            self.hold(member.kind, self.topics.get(topic_id) or self._gone[topic_id], sign * len(numbers))
        self.uneven |= member.kind.bit

    def _new_kind(self, topics: frozenset[UUID], rack: str | None) -> Kind:
        kind = self._kinds[topics, rack] = self.levels.add_kind(topics, rack)
        for topic in filter(None, map(self.topics.get, topics)):
            topic.kinds |= kind.bit
            if topic.free:
                self.to_deal[topic] = None
        self._pools = None
        return kind

    def _remove_kind(self, kind: Kind) -> None:
        del self._kinds[kind.topics, kind.rack]
        self.levels.remove_kind(kind)
        self.uneven &= ~kind.bit
        for topic in filter(None, map(self.topics.get, kind.topics)):
            topic.kinds &= ~kind.bit
        self._pools = None
