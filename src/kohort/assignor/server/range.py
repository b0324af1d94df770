"""Assignor `range` (KIP-848): contiguous ranges per topic, aligned between co-partitioned topics.

The assignment depends only on the present members, so it is not sticky beyond that: a member that
joins or leaves shifts the ranges of all later members.
"""

from collections.abc import Iterable, Mapping, Set
from operator import attrgetter

from kohort.assignor.server.api import MemberShape, Target, TopicShape, why_nothing
from kohort.assignor.server.partition_numbers import kept
from kohort.model import UUID


class RangeAssignor:
    """Co-partitioned ranges, as joins of topics with equal keys and equal partition counts require."""

    name = "range"

    def plan(self) -> "RangePlan":
        """See `ServerAssignor.plan`."""
        return RangePlan()


class RangePlan:
    """See `Plan`. An update costs time proportional to the group size, or nothing if nothing changed."""

    def __init__(self) -> None:
        self._topics: dict[UUID, int] = {}
        self._members: dict[str, MemberShape] = {}
        self._targets: dict[str, Target] = {}
        """Targets as last returned."""
        self._subscribers: dict[UUID, list[str]] = {}
        """Subscribers of each existing topic, in order, as of the last update."""
        self._places: dict[frozenset[UUID], list[dict[str, int]]] = {}
        """By subscription, each member's position among the subscribers of its topics; computed on demand."""
        self._changed = False

    def set_topic(self, topic_id: UUID, topic: TopicShape) -> None:
        """See `Plan.set_topic`."""
        self._topics[topic_id] = topic.partitions
        self._changed = True

    def remove_topic(self, topic_id: UUID) -> None:
        """See `Plan.remove_topic`."""
        if self._topics.pop(topic_id, None) is not None:
            self._changed = True

    def set_member(self, member_id: str, member: MemberShape) -> None:
        """See `Plan.set_member`."""
        self._members[member_id] = member
        self._changed = True

    def remove_member(self, member_id: str) -> None:
        """See `Plan.remove_member`."""
        if self._members.pop(member_id, None) is not None:
            self._targets.pop(member_id, None)
            self._changed = True

    def rename_member(self, old: str, new: str) -> None:
        """See `Plan.rename_member`. Static members are ordered by instance ID, so positions do not change."""
        self.remove_member(new)
        if old not in self._members:
            return
        self._members[new] = self._members.pop(old)
        if old in self._targets:
            self._targets[new] = self._targets.pop(old)
        for members in {id(members): members for members in self._subscribers.values()}.values():
            if old in members:
                members[members.index(old)] = new
        self._places = {}
        self._changed = True

    def restore(self, targets: Mapping[str, Target]) -> None:
        """See `Plan.restore`. Ranges have no history, so the targets only limit what the next update returns."""
        self._targets = dict(targets)
        self._changed = True

    def update(self) -> Mapping[str, Target]:
        """See `Plan.update`."""
        if not self._changed:
            return {}
        self._changed = False
        before = self._targets
        self._targets = self._ranges()
        return {member: target for member, target in self._targets.items() if before.get(member) != target}

    def reason(self, member_id: str) -> str:
        """See `Plan.reason`."""
        member, target = self._members[member_id], self._targets.get(member_id, {})
        if member.drained or not (orders := self._orders(member.topics)):
            return why_nothing(member)
        places = sorted({order[member_id] for order in orders})
        place = f"number {places[0]}" if len(places) == 1 else f"number {places[0]} to {places[-1]}"
        return (
            f"{sum(map(len, target.values()))} partitions of {len(target)} topics: it is {place} of the subscribers, "
            "static members first, by instance id, and the others by member id"
        )

    def _orders(self, topics: frozenset[UUID]) -> list[dict[str, int]]:
        """Return the members' positions among the subscribers of these topics, one mapping per distinct order."""
        if topics not in self._places:
            lists = {id(found): found for topic_id in topics if (found := self._subscribers.get(topic_id))}
            self._places[topics] = [
                {member_id: n for n, member_id in enumerate(ordered, start=1)} for ordered in lists.values()
            ]
        return self._places[topics]

    def _ranges(self) -> dict[str, Target]:
        made: dict[str, dict[UUID, Set[int]]] = {member_id: {} for member_id in self._members}
        cut: dict[tuple[int, int], list[Set[int]]] = {}
        self._subscribers, self._places = self._in_order(), {}
        for topic_id, subscribers in self._subscribers.items():
            shape = (self._topics[topic_id], len(subscribers))
            if shape not in cut:
                cut[shape] = list(_cut(*shape))
            # Members after the last range get nothing.
            for member_id, numbers in zip(subscribers, cut[shape], strict=False):
                made[member_id][topic_id] = numbers
        return dict(made)

    def _in_order(self) -> dict[UUID, list[str]]:
        """Return each topic's subscribers in order; topics with the same subscribers share a list."""
        alike: dict[frozenset[UUID], list[str]] = {}
        for member_id in sorted(self._members, key=self._rank):
            member = self._members[member_id]
            if not member.drained:
                alike.setdefault(member.topics, []).append(member_id)
        together: dict[UUID, list[frozenset[UUID]]] = {}
        for topics in alike:
            for topic_id in self._existing(topics):
                together.setdefault(topic_id, []).append(topics)
        merged: dict[tuple[frozenset[UUID], ...], list[str]] = {}
        subscribers: dict[UUID, list[str]] = {}
        for topic_id, subscriptions in together.items():
            key = tuple(subscriptions)
            if key not in merged:
                members = [member_id for topics in key for member_id in alike[topics]]
                merged[key] = members if len(key) == 1 else sorted(members, key=self._rank)
            subscribers[topic_id] = merged[key]
        return subscribers

    def _existing(self, topics: Iterable[UUID]) -> list[UUID]:
        # Sorted, because the order of a set depends on how it was made, and a target's record has the target's order.
        return sorted((topic_id for topic_id in topics if topic_id in self._topics), key=attrgetter("int"))

    def _rank(self, member_id: str) -> tuple[bool, str]:
        instance_id = self._members[member_id].instance_id
        return (True, member_id) if instance_id is None else (False, instance_id)


def _cut(partitions: int, members: int) -> Iterable[Set[int]]:
    """Yield the non-empty ranges in order, longer ones first."""
    short, longer = divmod(partitions, members)
    start = 0
    for index in range(members if short else longer):
        end = start + short + (index < longer)
        yield kept(frozenset(range(start, end)))
        start = end
