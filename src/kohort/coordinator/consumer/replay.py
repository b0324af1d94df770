"""Replay the records of a consumer group. Nothing else writes its durable state.

Compaction may have removed any record that a later record with the same key replaced, so each
record is applied as it is. A partition may have two owners temporarily while the log is loaded; the
later record wins.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import assert_never, get_args

from kohort.coordinator.consumer.group import FIRST_EPOCH, ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.member import ClassicProtocolState, ConsumerMember, Subscription
from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.consumer.topics import ResolvedExpression
from kohort.coordinator.topic_metadata import HASH_RANGE
from kohort.model import UUID
from kohort.wire.codec import Message
from kohort.wire.messages.group_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartitions,
)

ConsumerGroupKey = (  # the most frequent first, because they are checked in order
    ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupRegularExpressionKey
)


CONSUMER_GROUP_KEYS = get_args(ConsumerGroupKey)
"""Record key classes as a tuple, which `isinstance` checks three times as fast as a union."""


def replay_consumer_group(groups: ConsumerGroups, key: ConsumerGroupKey, value: Message | None) -> None:
    """Apply one record. A tombstone of an unknown key has no effect."""
    group = groups.consumer(key.group_id)
    if value is None:
        if group is not None:
            _forget(groups, group, key)
        return
    if group is None:
        group = groups.make_consumer(key.group_id)
    match key:  # the most frequent first
        case ConsumerGroupCurrentMemberAssignmentKey():
            assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
            before = group.members.get(key.member_id)
            _put_current(group, key.member_id, value)
            _news_for_waiting_members(groups, group, before, key.member_id)
            _update_moving(groups, group, key.member_id)
        case ConsumerGroupMetadataKey():
            assert isinstance(value, ConsumerGroupMetadataValue)
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash % HASH_RANGE
            _news(groups, group)
        case ConsumerGroupPartitionMetadataKey():
            group.has_partition_metadata = True
        case ConsumerGroupMemberMetadataKey():
            assert isinstance(value, ConsumerGroupMemberMetadataValue)
            _put_metadata(groups, group, key.member_id, value)
        case ConsumerGroupTargetAssignmentMetadataKey():
            assert isinstance(value, ConsumerGroupTargetAssignmentMetadataValue)
            group.target_epoch, group.target_at = value.assignment_epoch, value.assignment_timestamp
            group.targets_to_write = {}
            _news(groups, group)
        case ConsumerGroupTargetAssignmentMemberKey():
            assert isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
            _put_target(group, key.member_id, value)
            group.update_moving(key.member_id)
        case ConsumerGroupRegularExpressionKey():
            assert isinstance(value, ConsumerGroupRegularExpressionValue)
            resolved = ResolvedExpression(frozenset(value.topics), value.version, value.timestamp)
            groups.list_topics(group, group.resolve(key.regular_expression, resolved))
        case _:
            assert_never(key)


def _forget(groups: ConsumerGroups, group: ConsumerGroup, key: ConsumerGroupKey) -> None:
    match key:
        case ConsumerGroupMetadataKey():
            groups.forget_consumer(group)
            _news(groups, group)
        case ConsumerGroupPartitionMetadataKey():
            group.has_partition_metadata = False
        case ConsumerGroupMemberMetadataKey():
            groups.list_topics(group, group.remove(key.member_id))
            group.planning.member_removed(key.member_id)
            if not group.moving:
                _news(groups, group)
            if groups.prompt is not None:
                groups.prompt.member_removed(key.group_id, key.member_id)
        case ConsumerGroupTargetAssignmentMetadataKey():
            group.target_epoch, group.target_at = FIRST_EPOCH, 0
        case ConsumerGroupTargetAssignmentMemberKey():
            group.targets.pop(key.member_id, None)
            group.update_moving(key.member_id)
        case ConsumerGroupCurrentMemberAssignmentKey():
            member = group.members.get(key.member_id)
            if member is not None:
                group.put(
                    replace(
                        member, epoch=0, previous_epoch=-1, state=MemberState.STABLE, assigned=NOTHING, revoking=NOTHING
                    )
                )
        case ConsumerGroupRegularExpressionKey():
            groups.list_topics(group, group.resolve(key.regular_expression, None))
        case _:
            assert_never(key)


def _news(groups: ConsumerGroups, group: ConsumerGroup) -> None:
    """Wake the held heartbeats of all members."""
    if groups.prompt is not None:
        groups.prompt.news_for_group(group.group_id)


def _update_moving(groups: ConsumerGroups, group: ConsumerGroup, member_id: str) -> None:
    """Update `moving`. If it becomes empty, wake held heartbeats of members for which only the epoch is new."""
    moved = member_id in group.moving
    group.update_moving(member_id)
    if moved and not group.moving:
        _news(groups, group)


def _news_for_waiting_members(
    groups: ConsumerGroups, group: ConsumerGroup, before: ConsumerMember | None, member_id: str
) -> None:
    """Notify held heartbeats that wait for partitions that a member may have released."""
    prompt = groups.prompt
    if before is None or prompt is None or not prompt.waits_for_partitions:
        return
    has = group.members[member_id]
    given_up = (before.assigned | before.revoking) - (has.assigned | has.revoking)
    for topic_id, partitions in given_up.by_topic.items():
        prompt.partitions_freed(group.group_id, topic_id, partitions)


def _put_metadata(
    groups: ConsumerGroups, group: ConsumerGroup, member_id: str, value: ConsumerGroupMemberMetadataValue
) -> None:
    subscription = Subscription(frozenset(value.subscribed_topic_names), value.subscribed_topic_regex or None)
    old = group.members.get(member_id)
    member = ConsumerMember(member_id) if old is None else old.copy()
    member.instance_id, member.rack_id = value.instance_id, value.rack_id
    member.client_id, member.client_host = value.client_id, value.client_host
    member.subscription = group.topics.shared(subscription)
    member.rebalance_timeout_ms = value.rebalance_timeout_ms
    member.server_assignor = value.server_assignor
    member.weight = None if value.weight < 0 else value.weight
    member.classic = _classic(value.classic_member_metadata)
    changed = group.put(member)
    groups.list_topics(group, changed)
    group.planning.member_changed(member_id)


def _classic(value: ClassicMemberMetadata | None) -> ClassicProtocolState | None:
    if value is None or not value.supported_protocols:
        return None
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in value.supported_protocols)
    return ClassicProtocolState(value.session_timeout_ms, protocols)


def _put_target(group: ConsumerGroup, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue) -> None:
    target = Partitions.of((topic.topic_id, topic.partitions) for topic in value.topic_partitions)
    made = group.targets_to_write.pop(member_id, None)
    if target:
        group.targets[member_id] = made if made == target else target.kept()
    else:
        group.targets.pop(member_id, None)


def _put_current(group: ConsumerGroup, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue) -> None:
    member = group.members.get(member_id) or ConsumerMember(member_id)
    given, owed = value.assigned_partitions, value.partitions_pending_revocation
    assigned = _partitions(given)
    target = group.targets.get(member_id)
    moved = member.with_assignment(
        value.member_epoch,
        value.previous_member_epoch,
        _STATES.get(value.state, MemberState.UNKNOWN),
        # Most members own exactly their target; in a large group, one object then serves for both.
        target if target is not None and target == assigned else assigned.kept(),
        _partitions(owed),
    )
    before = (member.state, member.assigned, member.revoking)
    if not member.epoch or before != (moved.state, moved.assigned, moved.revoking):
        moved.since = group.written_at
    group.put(moved)
    for topics in (given, owed):
        if topics:
            group.give(member_id, _given(topics, value.member_epoch))


def _partitions(topics: Collection[TopicPartitions]) -> Partitions:
    return Partitions.of([(topic.topic_id, topic.partitions) for topic in topics]) if topics else NOTHING


_STATES = {state.value: state for state in MemberState}


def _given(topics: Iterable[TopicPartitions], member_epoch: int) -> Iterator[tuple[UUID, int, int]]:
    """Yield each partition with its epoch of assignment, which was not recorded before KIP-1251."""
    for topic in topics:
        epochs = topic.assignment_epochs or [member_epoch] * len(topic.partitions)
        for partition, epoch in zip(topic.partitions, epochs, strict=False):
            yield topic.topic_id, partition, epoch
