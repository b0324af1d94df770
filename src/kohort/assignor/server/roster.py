"""State that all partition-counting plans share: topics, members, owners, and changes since the last update.

Callers share the targets that an update returned, so the first change after an update copies the
target.
"""

from collections.abc import Collection, Mapping, Set

from kohort.assignor.server.api import MemberShape, Target, TopicShape
from kohort.assignor.server.levels import Member, MemberClass, MembersByLoad, Singletons, Topic
from kohort.assignor.server.partition_numbers import kept
from kohort.model import UUID

_MANY = 64
"""Minimum number of partitions of a topic from which a mutable set is cheaper than a new frozenset per change."""


class Roster:
    """Bookkeeping of one group: it finds the members that may own a partition, and the plans choose one of them."""

    def __init__(self) -> None:
        self.topics: dict[UUID, Topic] = {}
        self.members: dict[str, Member] = {}
        self.levels = MembersByLoad()
        self.to_deal: dict[Topic, None] = {}
        """Topics that may have both free partitions and subscribers."""
        self.uneven = 0
        """Kinds with a member that is new or whose load changed."""
        self._kinds: dict[tuple[frozenset[UUID], str | None], MemberClass] = {}
        self._pools: dict[int, list[Topic]] | None = None
        self._gone: dict[UUID, Topic] = {}
        """Removed topics that members may still own."""
        self._before: dict[str, Mapping[UUID, Set[int]] | None] = {}
        """Targets as last returned, of members whose target has changed since; None for members that are new."""
        self._turn = 0
        """Number of updates so far. A target that was copied in this turn is not shared."""
        self._singletons = Singletons()
        self._shares: dict[frozenset[UUID], tuple[int, int, int] | None] = {}

    def set_topic(self, topic_id: UUID, shape: TopicShape) -> None:
        """See `Plan.set_topic`. A topic that shrank loses its assignments; Kafka topics never shrink."""
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
        """See `Plan.remove_topic`. `collect_gone` later removes all such topics from their owners in one pass."""
        topic = self.topics.pop(topic_id, None)
        if topic is None:
            return
        self.to_deal.pop(topic, None)
        self._pools = None
        if any(topic in kind.held for kind in self.levels.each(topic.kinds)):
            self._gone[topic_id] = topic

    def set_member(self, member_id: str, shape: MemberShape) -> None:
        """See `Plan.set_member`. Its partitions of topics to which it no longer subscribes become free."""
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
        """See `Plan.remove_member`. Its partitions become free."""
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
        """See `Plan.restore`. If two members claim a partition, the first one gets it."""
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
        """Remove all removed topics from their owners; with `topic_ids`, only if one of these is among them."""
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

    def take_changed_targets(self) -> dict[str, Target]:
        """Return the targets of present members that changed since the last call. They are immutable from now on."""
        self._shares = {}
        self._singletons = Singletons()
        changed: dict[str, Target] = {}
        for member_id, before in self._before.items():
            member = self.members.get(member_id)
            if member is None:
                continue
            target = member.target
            for topic_id, numbers in target.items():
                target[topic_id] = kept(numbers)
            if target != before:
                changed[member_id] = target
        self._before = {}
        self._turn += 1
        return changed

    def give(self, topic: Topic, numbers: Collection[int], members: Collection[Member]) -> None:
        """Assign each number to one member, in order. The caller updates the members' loads."""
        topic_id, singletons, turn = topic.id, self._singletons, self._turn
        for number, member in zip(numbers, members, strict=True):
            target = member.target if member.turn == turn else self._own(member)
            had = target.get(topic_id)
            if had is None:
                target[topic_id] = singletons[number]
            elif len(had) < _MANY:
                target[topic_id] = had | singletons[number]
            elif isinstance(had, set):
                had.add(number)
            else:
                target[topic_id] = {*had, number}

    def give_all(self, topic: Topic, numbers: Collection[int], member: Member) -> None:
        """Assign all numbers to one member. The caller updates its load."""
        target = self._own(member)
        target[topic.id] = frozenset(numbers).union(target.get(topic.id, ()))

    def hold(self, kind: MemberClass, topic: Topic, change: int) -> None:
        """Add `change` to the number of the topic's partitions that members of this kind own."""
        held = kind.held.get(topic, 0) + change
        if held:
            kind.held[topic] = held
        else:
            del kind.held[topic]
        self.uneven |= kind.bit

    def hand_over(self, topic: Topic, number: int, giver: Member, receiver: Member) -> None:
        """Move one partition, and update the loads of both members."""
        self.pass_on(topic, number, giver, receiver)
        self.levels.move(giver, giver.load - 1)
        self.levels.move(receiver, receiver.load + 1)

    def pass_on(self, topic: Topic, number: int, giver: Member, receiver: Member) -> None:
        """Move one partition without updating the loads: the caller does that or compensates for it."""
        target = self._own(giver)
        had = target[topic.id]
        if isinstance(had, set):
            had.discard(number)
        elif len(had) < _MANY:
            target[topic.id] = had - self._singletons[number]
        else:
            target[topic.id] = set(had) - {number}
        if not target[topic.id]:
            del target[topic.id]
        self.give(topic, (number,), (receiver,))
        self.hold(giver.kind, topic, -1)
        self.hold(receiver.kind, topic, 1)

    def pools(self) -> dict[int, list[Topic]]:
        """Return the topics by their set of subscribing kinds; topics without subscribers are omitted."""
        if self._pools is None:
            self._pools = {}
            for topic in self.topics.values():
                if topic.kinds:
                    self._pools.setdefault(topic.kinds, []).append(topic)
        return self._pools

    def kinds_in(self, racks: Collection[str]) -> int:
        """Return the kinds whose members are in one of these racks."""
        near = 0
        for kind in self._kinds.values():
            if kind.rack in racks:
                near |= kind.bit
        return near

    def shares(self, topics: frozenset[UUID]) -> tuple[int, int, int] | None:
        """Return the partition count of a subscription, and the least and the most that its members own.

        Returns None if none of the topics exists. The result is cached until the next update.
        """
        if topics not in self._shares:
            exist = [self.topics[topic_id].shape.partitions for topic_id in topics if topic_id in self.topics]
            loads = [load for kind in self._kinds.values() if kind.topics == topics for load in kind.having]
            self._shares[topics] = (sum(exist), min(loads), max(loads)) if exist and loads else None
        return self._shares[topics]

    def near(self, member: Member) -> int | None:
        """Return how many of the member's partitions have a replica in its rack; None if racks are unknown."""
        rack = member.kind.rack
        topics = [(self.topics[topic_id].shape.racks, numbers) for topic_id, numbers in member.target.items()]
        if rack is None or all(racks is None for racks, _ in topics):
            return None
        return sum(rack in racks[number] for racks, numbers in topics if racks for number in numbers)

    def _own(self, member: Member) -> dict[UUID, Set[int]]:
        """Return the member's target, which is copied first if callers share it."""
        if member.turn != self._turn:
            self._before.setdefault(member.id, member.target)
            member.target = dict(member.target)
            member.turn = self._turn
        return member.target

    def _claim(self, kind: MemberClass, target: Target, taken: dict[Topic, set[int]]) -> dict[UUID, Set[int]]:
        """Return the part of a restored target that the member may own and no other member has claimed; claim it."""
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
        """Add a member with its target to the counts."""
        member.kind.size += 1
        self.levels.put(member, sum(map(len, member.target.values())))
        self._count(member, 1)

    def _leave(self, member: Member, keep: Collection[UUID]) -> None:
        """Remove a member from the counts; its partitions of topics other than `keep` become free."""
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

    def _new_kind(self, topics: frozenset[UUID], rack: str | None) -> MemberClass:
        kind = self._kinds[topics, rack] = self.levels.add_kind(topics, rack)
        known = [topic for topic_id in topics if (topic := self.topics.get(topic_id))]
        for topic in known:
            topic.kinds |= kind.bit
        # Sorted, because the order of a set depends on how it was made, and topics are dealt in this order.
        self.to_deal.update(
            dict.fromkeys(sorted((topic for topic in known if topic.free), key=lambda topic: topic.id.int))
        )
        self._pools = None
        return kind

    def _remove_kind(self, kind: MemberClass) -> None:
        del self._kinds[kind.topics, kind.rack]
        self.levels.remove_kind(kind)
        self.uneven &= ~kind.bit
        for topic in filter(None, map(self.topics.get, kind.topics)):
            topic.kinds &= ~kind.bit
        self._pools = None
