"""A consumer group: its epochs, its members, who has which partition, and what they ask for (KIP-848)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from kohort.coordinator.consumer.computing import Computing
from kohort.coordinator.consumer.member import NO_SUBSCRIPTION, ConsumerMember
from kohort.coordinator.consumer.owners import Owner, Owners
from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.coordinator.consumer.planning import Planning
from kohort.coordinator.consumer.search import Search
from kohort.coordinator.consumer.states import ConsumerGroupState, MemberState
from kohort.coordinator.consumer.topics import ResolvedExpression, SubscribedTopics
from kohort.coordinator.effects import Record
from kohort.coordinator.events import Weighed
from kohort.model import UUID, Millis

_Key = TypeVar("_Key", int, str)

FIRST_EPOCH = 1
"""Of a group that nobody has asked anything of yet; its first member with a subscription makes it 2."""

MOST_WEIGHED = 50
"""Members of one rebalance that the journal says this of; nobody reads more, and a large group has thousands."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """A member was given something, and has not reported to have it."""

    reported: Partitions
    """What it had before."""
    until: Millis
    """When it is taken for a member that does not report."""


class ConsumerGroup:
    """One group. All but the plan and the sessions is written by replay alone.

    Nothing in here costs what the group is large: a change of one member touches that member, its partitions, and the
    topics that it alone asks for.
    """

    __slots__ = (
        "_arrived",
        "answers_due",
        "assignors",
        "classic_members",
        "classic_protocols",
        "computing",
        "concerned",
        "epoch",
        "group_id",
        "handed_out",
        "has_partition_metadata",
        "made",
        "members",
        "metadata_hash",
        "moving",
        "offsets",
        "owners",
        "planning",
        "search",
        "static_ids",
        "target_at",
        "target_epoch",
        "targets",
        "topics",
        "unseen",
        "written_at",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        """Of the subscribed topics as they were at the epoch."""
        self.target_epoch = FIRST_EPOCH
        """The group epoch that the target assignment was computed for."""
        self.target_at: Millis = 0
        """When it was computed; 0 for never, or where the next one need not wait (KIP-1263)."""
        self.written_at: Millis = 0
        """When what replay is about to write was decided; 0 while the log is read, which does not say."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_ids: dict[str, str] = {}
        """Member id by instance id."""
        self.targets: dict[str, Partitions] = {}
        """What each member should own; who is not in it should own nothing."""
        self.made: dict[str, Partitions] = {}
        """Targets that are about to be written: replay takes these very values, which the plan has, too."""
        self.owners = Owners()
        """Who has each partition, be it that it was told to give it up."""
        self.topics = SubscribedTopics()
        self.assignors: Counter[str] = Counter()
        """How many members ask for each server assignor."""
        self.classic_members = 0
        """How many members speak the classic protocol."""
        self.classic_protocols: Counter[str] = Counter()
        """How many of those support each client-side assignor."""
        self.answers_due: dict[str, Millis] = {}
        """Until when classic members must have joined again, or synced, as they were told to; soft."""
        self.unseen: dict[str, Unseen] = {}
        """By member, while it is not reported; soft."""
        self.handed_out: dict[str, None] = {}
        """Member ids that classic members are to join with (KIP-394), the oldest first; soft."""
        self.concerned: dict[str, None] = {}
        """Members whose target changed since the group was settled last, at most MOST_WEIGHED; soft."""
        self.moving: dict[str, None] = {}
        """Members that have not what they should own, or owe what they should not."""
        self.offsets: dict[str, dict[int, Record]] = {}
        """By topic and partition the record that was written last, as in a classic group."""
        self.has_partition_metadata = False
        """A broker before 4.1 wrote what the topics looked like; it is deleted at the next occasion."""
        self.planning = Planning()
        self.computing = Computing()
        self.search: Search | None = None
        """A look-up of all expressions that takes more than one slice."""
        self._arrived: Counter[int] = Counter()
        """How many members are stable, by epoch."""

    @property
    def state(self) -> ConsumerGroupState:
        """Where the group stands."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if self._arrived[self.target_epoch] < len(self.members):
            return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    # What others ask

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """The holder of an instance id."""
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str) -> Partitions:
        """What a member should own."""
        return self.targets.get(member_id, NOTHING)

    def arrived(self, epoch: int) -> int:
        """How many members are stable at an epoch."""
        return self._arrived[epoch]

    def taken(self, wanted: Partitions) -> Partitions:
        """Those of `wanted` that somebody has."""
        return self.owners.taken(wanted)

    def owner(self, topic_id: UUID, partition: int) -> Owner | None:
        """Who has a partition."""
        return self.owners.of(topic_id, partition)

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member asks for a topic, by its name or by an expression."""
        return topic in self.topics.counts

    def supports(self, protocols: Collection[str]) -> bool:
        """Whether a classic member with these assignors may join: one in common with all others of its kind.

        The group could not become a classic group again if they had none.
        """
        return any(self.classic_protocols[name] == self.classic_members for name in protocols)

    # What a rebalance was about

    def concern(self, member_ids: Iterable[str]) -> None:
        """Their target changes."""
        room = MOST_WEIGHED - len(self.concerned)
        if room > 0:
            self.concerned.update(dict.fromkeys(islice(member_ids, room)))

    def weighed(self) -> tuple[Weighed, ...]:
        """What the assignor weighed for them, as of the last target; asked once in a rebalance."""
        concerned, self.concerned = self.concerned, {}
        if self.computing.made_by is not None:
            return ()
        reasons = ((member_id, self.planning.why(member_id)) for member_id in concerned)
        return tuple(Weighed(member_id, reason) for member_id, reason in reasons if reason is not None)

    def why(self, member_id: str) -> str | None:
        """Why a member should have what it should have, as far as this coordinator knows."""
        computing = self.computing
        if computing.failure is not None:
            return f"the last target counts on. {computing.failure}"
        if computing.made_by is not None:
            return f"a member computed it, by {computing.made_by}"
        return self.planning.why(member_id)

    # What replay writes

    def aim(self, member_id: str) -> None:
        """Note whether a member still has to move: it, or its target, is new."""
        member = self.members.get(member_id)
        if member is not None and (member.revoking or member.assigned != self.target_of(member_id)):
            self.moving[member_id] = None
        else:
            self.moving.pop(member_id, None)

    def put(self, member: ConsumerMember) -> Collection[str]:
        """Have this member as it is now. What it has no longer is free; what it has anew is noted in `owners`.

        As `remove` and `resolve` do, returns the topics that nobody in the group asked for before, or asks for now.
        """
        member_id = member.member_id
        old = self.members.get(member_id)
        self.members[member_id] = member
        self._name(old, member)
        if old is not None and not (old.assigned is member.assigned and old.revoking is member.revoking):
            self.owners.release(member_id, (old.assigned | old.revoking) - (member.assigned | member.revoking))
        return self._count(old, member)

    def remove(self, member_id: str) -> Collection[str]:
        """Forget a member, and free what it had."""
        old = self.members.pop(member_id, None)
        if old is None:
            return ()
        self.moving.pop(member_id, None)
        self.computing.left(member_id)
        self.answers_due.pop(member_id, None)
        self.unseen.pop(member_id, None)
        self._name(old, None)
        self.owners.release(member_id, old.assigned | old.revoking)
        return self._count(old, None)

    def give(self, member_id: str, partitions: Iterable[tuple[UUID, int, int]]) -> None:
        """A member has these partitions, each with the epoch in which it was given it."""
        self.owners.give(member_id, partitions)

    def resolve(self, expression: str, resolved: ResolvedExpression | None) -> Collection[str]:
        """An expression that members subscribe to matches these topics now."""
        changed = self.topics.resolve(expression, resolved)
        self.planning.topics_changed(changed)
        self.planning.members_changed(
            [m.member_id for m in self.members.values() if m.subscription.expression == expression]
        )
        return changed

    def topics_changed(self, names: Collection[str]) -> None:
        """There is something else under names that the group asks for."""
        self.planning.topics_changed(names)
        stale = self.topics.topics_changed(names)
        self.planning.members_changed([m.member_id for m in self.members.values() if m.subscription in stale])

    def _count(self, old: ConsumerMember | None, new: ConsumerMember | None) -> Collection[str]:
        if old is not None and old.state is MemberState.STABLE:
            _subtract(self._arrived, old.epoch)
        if new is not None and new.state is MemberState.STABLE:
            self._arrived[new.epoch] += 1
        if old is not None and new is not None and old.describes_as(new):
            return ()
        if old is not None and old.server_assignor is not None:
            _subtract(self.assignors, old.server_assignor)
        if new is not None and new.server_assignor is not None:
            self.assignors[new.server_assignor] += 1
        if (None if old is None else old.classic) != (None if new is None else new.classic):
            self._count_classic(old, -1)
            self._count_classic(new, 1)
        before = NO_SUBSCRIPTION if old is None else old.subscription
        after = NO_SUBSCRIPTION if new is None else new.subscription
        changed = self.topics.replace(before, after)
        self.planning.topics_changed(changed)
        return changed

    def _count_classic(self, member: ConsumerMember | None, by: int) -> None:
        if member is not None and member.classic is not None:
            self.classic_members += by
            for name, _ in member.classic.protocols:
                self.classic_protocols[name] += by

    def _name(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        # A member may come with another instance id: the old one must not go on naming it (KAFKA-20747).
        if old is not None and old.instance_id is not None and self.static_ids.get(old.instance_id) == old.member_id:
            del self.static_ids[old.instance_id]
        if new is not None and new.instance_id is not None:
            self.static_ids[new.instance_id] = new.member_id


def _subtract(counts: Counter[_Key], key: _Key) -> None:
    if counts[key] == 1:
        del counts[key]
    else:
        counts[key] -= 1
