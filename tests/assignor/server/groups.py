"""A group that a plan keeps, beside what the plan was told and what it said: the two must agree after every update."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from kohort.assignor.server import MemberShape, Plan, ServerAssignor, Target, TopicShape
from kohort.model import UUID

steady = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


def topic(number: int) -> UUID:
    """A topic's id."""
    return UUID(int=number + 1)


@dataclass
class Group:
    """The contents of the log: topics, members, and the targets after all updates."""

    assignor: ServerAssignor
    topics: dict[UUID, TopicShape] = field(default_factory=dict)
    members: dict[str, MemberShape] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    plan: Plan = field(init=False)

    def __post_init__(self) -> None:
        self.plan = self.assignor.plan()

    def set_topic(self, number: int, partitions: int, racks: Iterable[Iterable[str]] | None = None) -> None:
        placed = None if racks is None else tuple(frozenset(partition_racks) for partition_racks in racks)
        self.topics[topic(number)] = TopicShape(partitions, placed)
        self.plan.set_topic(topic(number), self.topics[topic(number)])

    def remove_topic(self, number: int) -> None:
        self.topics.pop(topic(number), None)
        self.plan.remove_topic(topic(number))

    def join(self, member_id: str, *topics: int, shape: MemberShape | None = None) -> None:
        """A member joins, or changes what it asks for."""
        subscribed = frozenset(map(topic, topics))
        self.members[member_id] = replace(shape, topics=subscribed) if shape else MemberShape(subscribed)
        self.plan.set_member(member_id, self.members[member_id])

    def leave(self, member_id: str) -> None:
        self.members.pop(member_id, None)
        self.targets.pop(member_id, None)
        self.plan.remove_member(member_id)

    def rename(self, old: str, new: str) -> None:
        self.members[new] = self.members.pop(old)
        if old in self.targets:
            self.targets[new] = self.targets.pop(old)
        self.plan.rename_member(old, new)

    def update(self) -> Mapping[str, Target]:
        """Take over what changed; nothing that did not change is in it."""
        changed = self.plan.update()
        for member_id, target in changed.items():
            assert member_id in self.members, "a member that left has no target"
            assert self.targets.get(member_id) != target, "said again what was said before"
            assert all(target.values()), "a topic without partitions is left out"
        self.targets |= changed
        assert self.targets.keys() == self.members.keys(), "every member was told its target"
        return changed

    def fail_over(self) -> None:
        """Continue from the log with another coordinator."""
        self.plan = self.assignor.plan()
        for topic_id, shape in self.topics.items():
            self.plan.set_topic(topic_id, shape)
        for member_id, member in self.members.items():
            self.plan.set_member(member_id, member)
        self.plan.restore(self.targets)

    def wants(self, member_id: str) -> frozenset[UUID]:
        member = self.members[member_id]
        return frozenset() if member.drained else member.topics

    def load(self) -> dict[str, int]:
        return {member_id: sum(map(len, target.values())) for member_id, target in self.targets.items()}

    def owned(self) -> list[tuple[UUID, int]]:
        return [(t, n) for target in self.targets.values() for t, numbers in target.items() for n in numbers]

    def is_owned(self, number: int) -> bool:
        """Whether the last targets have partitions of that topic, which may be deleted by now."""
        return any(topic(number) in target for target in self.targets.values())

    def check_complete(self) -> None:
        """Check that each subscribed partition has one owner, which subscribes to its topic (S2 and S3)."""
        wanted = {topic_id for member_id in self.members for topic_id in self.wants(member_id)} & self.topics.keys()
        assert Counter(self.owned()) == Counter((t, n) for t in wanted for n in range(self.topics[t].partitions))
        for member_id, target in self.targets.items():
            assert target.keys() <= self.wants(member_id)

    def check_balanced(self) -> None:
        """No single partition could move to a member that has two fewer."""
        load = self.load()
        for member_id, target in self.targets.items():
            for topic_id in target:
                fewest = min(load[other] for other in self.members if topic_id in self.wants(other))
                assert fewest + 1 >= load[member_id], (member_id, self.targets)


def moved(before: Mapping[str, Target], after: Mapping[str, Target]) -> int:
    """How many partitions have another owner than before; those that had none do not count."""
    owner = {
        (t, n): member_id for member_id, target in before.items() for t, numbers in target.items() for n in numbers
    }
    return sum(
        owner.get((t, n), member_id) != member_id
        for member_id, target in after.items()
        for t, numbers in target.items()
        for n in numbers
    )


RACKS = "ABC"


@st.composite
def changes(draw: st.DrawFn, group: Group, *, subscription: tuple[int, ...] | None = None, racks: bool = False) -> None:
    """Something happens to the group; with `subscription` all members keep asking for that."""
    happens = draw(st.sampled_from(["join", "join", "leave", "topic", "grow", "delete", "change", "rename", "drain"]))
    someone = draw(st.sampled_from(sorted(group.members))) if group.members else None
    number = draw(st.integers(0, 3))
    asked = subscription or tuple(draw(st.sets(st.integers(0, 3), max_size=4)))
    match happens:
        case "join":
            member_id = f"m{draw(st.integers(0, 11)):02}"
            rack = draw(st.sampled_from(RACKS)) if racks else None
            group.join(member_id, *asked, shape=MemberShape(frozenset(), rack=rack))
        case "leave" if someone:
            group.leave(someone)
        case "topic" if topic(number) not in group.topics and not group.is_owned(number):
            # A recreated topic has another id, so it has no owners yet.
            _place(draw, group, number, draw(st.integers(0, 12)), racks=racks)
        case "grow" if topic(number) in group.topics:
            _place(draw, group, number, group.topics[topic(number)].partitions + draw(st.integers(0, 9)), racks=racks)
        case "delete":
            group.remove_topic(number)
        case "change" if someone:
            group.join(someone, *asked, shape=group.members[someone])
        case "rename" if someone and f"new {someone}" not in group.members:
            group.rename(someone, f"new {someone}")
        case "drain" if someone and not subscription:
            shape = group.members[someone]
            group.members[someone] = replace(shape, drained=not shape.drained)
            group.plan.set_member(someone, group.members[someone])


def _place(draw: st.DrawFn, group: Group, number: int, partitions: int, *, racks: bool) -> None:
    known = group.topics.get(topic(number))
    placed = list(known.racks) if known and known.racks else []
    while racks and len(placed) < partitions:
        placed.append(frozenset(draw(st.sets(st.sampled_from(RACKS), min_size=1, max_size=2))))
    group.set_topic(number, partitions, placed if racks else None)


@st.composite
def histories(draw: st.DrawFn, assignor: ServerAssignor, *, alike: bool = False, racks: bool = False) -> Group:
    """A group after some changes, with updates now and then; the last changes may not be in its targets yet."""
    group = Group(assignor)
    subscription = (0, 1, 2, 3) if alike else None
    for _ in range(draw(st.integers(1, 25))):
        draw(changes(group, subscription=subscription, racks=racks))
        if draw(st.integers(0, 3)) == 0:
            group.update()
        elif draw(st.integers(0, 19)) == 0:
            group.update()
            group.fail_over()
    return group
