"""A consumer group's durable state as records of `__consumer_offsets`, as Apache Kafka 4.3 writes them."""

from collections.abc import Callable

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import ClassicSide, ConsumerMember
from kohort.coordinator.consumer.partitions import Partitions
from kohort.coordinator.consumer.topics import ResolvedExpression
from kohort.coordinator.effects import Record
from kohort.model import UUID, Millis
from kohort.wire.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
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
    TargetTopicPartition,
    TopicPartitions,
)

_INT64 = 1 << 63


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """The group epoch, and what the subscribed topics looked like at it."""
    signed = (metadata_hash + _INT64) % (2 * _INT64) - _INT64
    return Record(
        ConsumerGroupMetadataKey(group_id=group_id), ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=signed)
    )


def member_metadata(group_id: str, member: ConsumerMember) -> Record:
    """Who a member is, and what it asks for."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscription.names),
        subscribed_topic_regex=member.subscription.expression,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=_classic(member.classic),
        weight=-1.0 if member.weight is None else member.weight,
    )
    return Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_epoch(group_id: str, epoch: int, computed_at: Millis) -> Record:
    """The group epoch that the target assignment was computed for, written after the members' targets."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=computed_at)
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target(group_id: str, member_id: str, partitions: Partitions) -> Record:
    """What a member should own."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartition(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in partitions.by_topic.items()
        ]
    )
    return Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current(group_id: str, member: ConsumerMember, since: Callable[[UUID, int], int]) -> Record:
    """What a member owns and what it must give up; `since` gives the epoch in which it was given a partition."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_with_epochs(member.assigned, since),
        partitions_pending_revocation=_with_epochs(member.revoking, since),
    )
    return Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def resolved_expression(group_id: str, expression: str, resolved: ResolvedExpression) -> Record:
    """The topics that an expression matches."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.resolved_at
    )
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression), value)


# The ends


def no_expression(group_id: str, expression: str) -> Record:
    """Nobody subscribes to an expression any more."""
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression), None)


def no_member(group_id: str, member_id: str) -> list[Record]:
    """A member is gone: first what it owns, last who it was, as a loader needs it."""
    return [
        Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def no_partition_metadata(group_id: str) -> Record:
    """What a broker before 4.1 wrote of topics is no longer looked at."""
    return Record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def no_group_and_members(group: ConsumerGroup) -> list[Record]:
    """The end of a group with its members."""
    members = [record for member_id in group.members for record in no_member(group.group_id, member_id)]
    return members + no_group(group)


def no_group(group: ConsumerGroup) -> list[Record]:
    """The end of a group, once its members are gone."""
    group_id = group.group_id
    records = [Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)]
    records += [no_expression(group_id, expression) for expression in group.topics.resolved]
    if group.has_partition_metadata:
        records.append(no_partition_metadata(group_id))
    records.append(Record(ConsumerGroupMetadataKey(group_id=group_id), None))
    return records


def _classic(classic: ClassicSide | None) -> ClassicMemberMetadata | None:
    if classic is None:
        return None
    protocols = [ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols]
    return ClassicMemberMetadata(session_timeout_ms=classic.session_timeout_ms, supported_protocols=protocols)


def _with_epochs(partitions: Partitions, since: Callable[[UUID, int], int]) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=(ordered := sorted(numbers)),
            assignment_epochs=[since(topic_id, number) for number in ordered],
        )
        for topic_id, numbers in partitions.by_topic.items()
    ]
