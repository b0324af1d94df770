"""Invariants of a consumer group (KIP-848), checked after every step of a test."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kohort.coordinator import Timer
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember
from kohort.coordinator.consumer.states import ConsumerGroupState, MemberState
from kohort.coordinator.timers import ExpressionRefresh, MemberRebalanceTimeout, SessionTimeout, TargetDue
from kohort.model import UUID, TopicPartition
from kohort.wire.messages.group_records import OffsetCommitValue


class Epochs:
    """Follows groups from step to step: epochs only rise, and no partition has two owners at one epoch (S1, S4)."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[int, int]] = {}
        self._members: dict[tuple[str, str], int] = {}
        self._owned: dict[tuple[str, UUID, int, int], str] = {}
        """By group, partition and the epoch in which it was given: to whom."""

    def forget_all_but(self, group_ids: Collection[str]) -> None:
        """Forget all other groups: one that was replaced by a group of the other protocol is new when it returns."""
        self._groups = {key: epochs for key, epochs in self._groups.items() if key in group_ids}
        self._members = {key: epoch for key, epoch in self._members.items() if key[0] in group_ids}
        self._owned = {key: owner for key, owner in self._owned.items() if key[0] in group_ids}

    def check(self, group: ConsumerGroup, timers: Mapping[Timer, object]) -> None:
        """One group, now."""
        before = self._groups.get(group.group_id, (0, 0))
        assert before <= (group.epoch, group.target_epoch), "a group epoch fell"
        assert before[1] <= group.target_epoch <= group.epoch, "a target epoch fell, or is ahead of the group's"
        self._groups[group.group_id] = (group.epoch, group.target_epoch)
        for member in group.members.values():
            self._check_member(group, member, timers)
        _check_owners(group)
        _check_counts(group)

    def _check_member(self, group: ConsumerGroup, member: ConsumerMember, timers: Mapping[Timer, object]) -> None:
        key = group.group_id, member.member_id
        assert member.epoch <= group.target_epoch
        if member.epoch != STATIC_LEAVE_EPOCH:
            assert member.epoch >= self._members.get(key, 0), "a member's epoch fell"
            self._members[key] = member.epoch
        assert not member.assigned.overlaps(member.revoking)
        assert bool(member.revoking) == (member.state is MemberState.UNREVOKED_PARTITIONS)
        assert SessionTimeout(*key) in timers, f"nothing will end the session of {member.member_id}"
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            assert MemberRebalanceTimeout(*key) in timers, f"nothing will end the patience with {member.member_id}"
        for topic_id, partition in member.assigned | member.revoking:
            owner = group.owner(topic_id, partition)
            assert owner is not None and owner.member_id == member.member_id, "owned by another, too"
            if owner.since_epoch > 0:  # 0: of a static member's life before
                place = (group.group_id, topic_id, partition, owner.since_epoch)
                assert self._owned.setdefault(place, member.member_id) == member.member_id, "two owners at one epoch"


def _check_owners(group: ConsumerGroup) -> None:
    owned = [(t, p) for m in group.members.values() for t, p in m.assigned | m.revoking]
    assert len(owned) == len(set(owned)), "a partition has two owners"
    noted = set(group.owners)
    assert noted == set(owned), "somebody is noted as owner who is none"
    targets = [partition for target in group.targets.values() for partition in target]
    assert len(targets) == len(set(targets)), "two members should own one partition"


def _check_counts(group: ConsumerGroup) -> None:
    """Check that the incremental counts equal a count from scratch."""
    members = group.members.values()
    assert group.static_ids == {m.instance_id: m.member_id for m in members if m.instance_id is not None}
    assert sum(group.assignors.values()) == sum(m.server_assignor is not None for m in members)
    wanted = {name for m in members for name in group.topics.topics_of(m.subscription)}
    assert set(group.topics.counts) == wanted
    assert set(group.topics.expressions) == {m.subscription.expression for m in members} - {None}
    for kept in (group.unreported, group.viewers, group.moving, group.classic_deadlines):
        assert kept.keys() <= group.members.keys(), "a member that is gone is remembered"
    if not members:
        assert group.state is ConsumerGroupState.EMPTY and not group.owners and not group.targets
    elif group.epoch == group.target_epoch:
        arrived = all(member.is_at(group.target_epoch) for member in members)
        assert group.state is (ConsumerGroupState.STABLE if arrived else ConsumerGroupState.RECONCILING)
    else:
        assert group.state is ConsumerGroupState.ASSIGNING


def is_of_use(timer: Timer, group: ConsumerGroup | None) -> bool:
    """Whether a timer of a consumer group still has something to end."""
    if group is None:
        return False
    match timer:
        case SessionTimeout():
            return timer.member_id in group.members
        case MemberRebalanceTimeout():
            member = group.members.get(timer.member_id)
            return member is not None and member.state is MemberState.UNREVOKED_PARTITIONS
        case ExpressionRefresh():
            return bool(group.members)
        case TargetDue():
            return True  # the member may have learned of another change before
        case _:
            return False


def durable(group: ConsumerGroup) -> tuple[object, dict[TopicPartition, OffsetCommitValue]]:
    """Return the state of a group that survives a failover."""
    epochs = (group.epoch, group.metadata_hash, group.target_epoch, group.target_at)
    owners = {(t, p): group.owner(t, p) for t, p in group.owners}
    return (epochs, dict(group.members), dict(group.targets), owners, dict(group.topics.resolved)), committed(group)


def committed(group: ClassicGroup | ConsumerGroup) -> dict[TopicPartition, OffsetCommitValue]:
    """Return the committed offsets of a group."""
    return {
        TopicPartition(topic, partition): record.value
        for topic, stored in group.offsets.items()
        for partition, record in stored.items()
    }
