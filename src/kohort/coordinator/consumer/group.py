"""A consumer group: its epochs, its members, their partitions and their subscriptions (KIP-848)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from kohort.coordinator.consumer.client_assignors import MemberComputedTargets
from kohort.coordinator.consumer.expression_search import ExpressionSearch
from kohort.coordinator.consumer.member import NO_SUBSCRIPTION, ConsumerMember
from kohort.coordinator.consumer.owners import Owner, Owners
from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.coordinator.consumer.planning import Planning
from kohort.coordinator.consumer.states import ConsumerGroupState, MemberState
from kohort.coordinator.consumer.topics import ResolvedExpression, SubscribedTopics
from kohort.coordinator.effects import Viewer
from kohort.coordinator.prompt import GroupPartition
from kohort.group_events import Weighed
from kohort.model import UUID, Millis
from kohort.wire.group_log import CommittedOffset

_Key = TypeVar("_Key", int, str)

FIRST_EPOCH = 1
"""Epoch of a new group. Its first member with a subscription raises it to 2."""

MOST_WEIGHED = 50
"""Maximum number of members per rebalance whose weighing is recorded in the journal.

A large group has thousands of members, and the first ones show the reason.
"""


@dataclass(frozen=True, slots=True)
class UnreportedAssignment:
    """An assignment that a member has not reported as owned yet."""

    reported: Partitions
    """Partitions that the member had before."""
    until: Millis
    """Time from which the member is treated as one that does not report, and its assignment is repeated."""


class ConsumerGroup:
    """A consumer group. Only replay writes its state, except for the plan and the sessions.

    No operation costs time proportional to the size of the group: a change of one member touches
    that member, its partitions, and the topics to which it alone subscribes.
    """

    __slots__ = (
        "_stable_at",
        "assignors",
        "classic_deadlines",
        "classic_members",
        "classic_protocols",
        "computing",
        "epoch",
        "group_id",
        "has_partition_metadata",
        "members",
        "metadata_hash",
        "moving",
        "offsets",
        "owners",
        "pending_ids",
        "planning",
        "retargeted",
        "search",
        "static_ids",
        "target_at",
        "target_epoch",
        "targets",
        "targets_to_write",
        "topics",
        "unreported",
        "viewers",
        "written_at",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        """Hash of the subscribed topics at the group epoch."""
        self.target_epoch = FIRST_EPOCH
        """Group epoch for which the target assignment was computed."""
        self.target_at: Millis = 0
        """Time at which the target was computed.

        0 means never, or that the next target need not wait for the interval (KIP-1263).
        """
        self.written_at: Millis = 0
        """Time of the decision whose records replay is about to apply.

        0 while the log is loaded, because the log does not contain it.
        """
        self.members: dict[str, ConsumerMember] = {}
        self.static_ids: dict[str, str] = {}
        """Member ID by instance ID."""
        self.targets: dict[str, Partitions] = {}
        """Target assignment by member ID. A member without an entry should own nothing."""
        self.targets_to_write: dict[str, Partitions] = {}
        """Targets that are about to be written. Replay uses these objects, which the plan shares."""
        self.owners = Owners()
        """Owner of each partition, including partitions that the owner must revoke."""
        self.topics = SubscribedTopics()
        self.assignors: Counter[str] = Counter()
        """Number of members that request each server assignor."""
        self.classic_members = 0
        """Number of members that use the classic protocol."""
        self.classic_protocols: Counter[str] = Counter()
        """Number of classic members that support each client-side assignor."""
        self.classic_deadlines: dict[str, Millis] = {}
        """Deadline by which a classic member must rejoin or sync, by member ID; soft state."""
        self.unreported: dict[str, UnreportedAssignment] = {}
        """Assignments that members have not reported yet, by member ID; soft state."""
        self.viewers: dict[str, Viewer] = {}
        """Sender of a member's heartbeats, by member ID, if not all clients may describe all topics; soft state."""
        self.pending_ids: dict[str, None] = {}
        """Member IDs that were given to classic members for their second join (KIP-394), oldest first; soft state."""
        self.retargeted: dict[str, None] = {}
        """Members whose target changed since the group was last settled, at most MOST_WEIGHED; soft state."""
        self.moving: dict[str, None] = {}
        """Members whose assignment differs from their target, or that still have partitions to revoke."""
        self.offsets: dict[str, dict[int, CommittedOffset]] = {}
        """Last commit by topic and partition, as in a classic group."""
        self.has_partition_metadata = False
        """Whether a broker before 4.1 wrote partition metadata, which the next write of a group epoch deletes."""
        self.planning = Planning()
        self.computing = MemberComputedTargets()
        self.search: ExpressionSearch | None = None
        """A search for all expressions that takes more than one slice, or None."""
        self._stable_at: Counter[int] = Counter()
        """Number of stable members by epoch."""

    @property
    def state(self) -> ConsumerGroupState:
        """State of the group, derived from its epochs and members."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if self._stable_at[self.target_epoch] < len(self.members):
            return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    # Queries

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """Return the member that holds an instance ID."""
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str) -> Partitions:
        """Return a member's target assignment."""
        return self.targets.get(member_id, NOTHING)

    def stable_at(self, epoch: int) -> int:
        """Return the number of stable members at an epoch."""
        return self._stable_at[epoch]

    def taken(self, wanted: Partitions) -> Partitions:
        """Return the partitions of `wanted` that have an owner."""
        return self.owners.taken(wanted)

    def owner(self, topic_id: UUID, partition: int) -> Owner | None:
        """Return the owner of a partition."""
        return self.owners.of(topic_id, partition)

    @property
    def awaits_target(self) -> bool:
        """Whether the group has changed since the last target assignment."""
        return self.epoch > self.target_epoch

    def waits_for(self, member_id: str) -> Collection[GroupPartition]:
        """Return the partitions that other members must give up before this one can have them."""
        missing = self.target_of(member_id) - self.members[member_id].assigned
        return [(self.group_id, topic_id, partition) for topic_id, partition in missing]

    def would_move(self, member_id: str) -> bool:
        """Return whether the next answer to the member would change its partitions."""
        target, assigned = self.target_of(member_id), self.members[member_id].assigned
        missing = target - assigned
        return bool(assigned - target) or self.taken(missing) != missing

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic, by name or by expression."""
        return topic in self.topics.counts

    def supports(self, protocols: Collection[str]) -> bool:
        """Return whether a classic member with these assignors may join.

        It must have one in common with all other classic members. Without a common assignor, the
        group could not become a classic group again.
        """
        return any(self.classic_protocols[name] == self.classic_members for name in protocols)

    def is_report_overdue(self, member_id: str, now: Millis) -> bool:
        """Return whether the member was assigned partitions, and should have reported them by now."""
        unreported = self.unreported.get(member_id)
        return unreported is not None and unreported.until <= now

    # Skipped time

    def skip_time_of_member(self, member_id: str, by: Millis) -> None:
        """Give a member that lives `by` more until each of its deadlines, because the clock is about to jump."""
        member = self.members[member_id]
        member.session_deadline += by if member.session_deadline else 0
        if member_id in self.classic_deadlines:
            self.classic_deadlines[member_id] += by
        unreported = self.unreported.get(member_id)
        if unreported is not None:
            self.unreported[member_id] = replace(unreported, until=unreported.until + by)
        self.computing.skip_time_of_member(member_id, by)

    # Reasons for the last rebalance

    def note_new_targets(self, member_ids: Iterable[str]) -> None:
        """Note members whose target changes, at most MOST_WEIGHED in total."""
        room = MOST_WEIGHED - len(self.retargeted)
        if room > 0:
            self.retargeted.update(dict.fromkeys(islice(member_ids, room)))

    def weighed(self) -> tuple[Weighed, ...]:
        """Return what the assignor weighed for the members noted by `note_new_targets`, as of the last target.

        The notes are cleared, so call this once per rebalance.
        """
        retargeted, self.retargeted = self.retargeted, {}
        if self.computing.made_by is not None:
            return ()
        reasons = ((member_id, self.planning.why(member_id)) for member_id in retargeted)
        return tuple(Weighed(member_id, reason) for member_id, reason in reasons if reason is not None)

    def why(self, member_id: str) -> str | None:
        """Return the reason for a member's target, as far as this coordinator knows it."""
        computing = self.computing
        if computing.failure is not None:
            return f"the last target stays in force. {computing.failure}"
        if computing.made_by is not None:
            return f"a member computed it, by {computing.made_by}"
        return self.planning.why(member_id)

    # Written by replay

    def update_moving(self, member_id: str) -> None:
        """Update `moving` for a member, after the member or its target changed."""
        member = self.members.get(member_id)
        if member is not None and (member.revoking or member.assigned != self.target_of(member_id)):
            self.moving[member_id] = None
        else:
            self.moving.pop(member_id, None)

    def put(self, member: ConsumerMember) -> Collection[str]:
        """Store a member in its new state. Partitions that it no longer has become free.

        The caller records new partitions with `give`. Like `remove` and `resolve`, this returns the
        topics to which no member of the group subscribed before, or to which none subscribes now.
        """
        member_id = member.member_id
        old = self.members.get(member_id)
        self.members[member_id] = member
        self._update_static_ids(old, member)
        if old is not None and not (old.assigned is member.assigned and old.revoking is member.revoking):
            self.owners.release(member_id, (old.assigned | old.revoking) - (member.assigned | member.revoking))
        return self._count(old, member)

    def remove(self, member_id: str) -> Collection[str]:
        """Remove a member, and free its partitions."""
        old = self.members.pop(member_id, None)
        if old is None:
            return ()
        self.moving.pop(member_id, None)
        self.computing.left(member_id)
        self.classic_deadlines.pop(member_id, None)
        self.unreported.pop(member_id, None)
        self.viewers.pop(member_id, None)
        self._update_static_ids(old, None)
        self.owners.release(member_id, old.assigned | old.revoking)
        return self._count(old, None)

    def give(self, member_id: str, partitions: Iterable[tuple[UUID, int, int]]) -> None:
        """Record that a member has these partitions, given as (topic ID, partition, epoch of assignment)."""
        self.owners.give(member_id, partitions)

    def resolve(self, expression: str, resolved: ResolvedExpression | None) -> Collection[str]:
        """Record the topics that a subscribed expression now matches."""
        changed = self.topics.resolve(expression, resolved)
        self.planning.topics_changed(changed)
        self.planning.members_changed(
            [m.member_id for m in self.members.values() if m.subscription.expression == expression]
        )
        return changed

    def topics_changed(self, names: Collection[str]) -> None:
        """Note that subscribed topics with these names were created, deleted or changed."""
        self.planning.topics_changed(names)
        stale = self.topics.topics_changed(names)
        self.planning.members_changed([m.member_id for m in self.members.values() if m.subscription in stale])

    def _count(self, old: ConsumerMember | None, new: ConsumerMember | None) -> Collection[str]:
        if old is not None and old.state is MemberState.STABLE:
            _subtract(self._stable_at, old.epoch)
        if new is not None and new.state is MemberState.STABLE:
            self._stable_at[new.epoch] += 1
        if old is not None and new is not None and old.requests_same_as(new):
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

    def _update_static_ids(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        before = None if old is None else old.instance_id
        after = None if new is None else new.instance_id
        if new is not None and after is not None and (after != before or after not in self.static_ids):
            # Else the member keeps what it has. After damage to the log, it may have been replaced: its removal,
            # which first gives up its partitions, must not hide the member that has its instance ID now.
            self.static_ids[after] = new.member_id
        # A member may change its instance ID. The old ID must no longer refer to it (KAFKA-20747).
        if old is not None and before is not None and before != after and self.static_ids.get(before) == old.member_id:
            del self.static_ids[before]


def _subtract(counts: Counter[_Key], key: _Key) -> None:
    if counts[key] == 1:
        del counts[key]
    else:
        counts[key] -= 1
