"""The durable state of a consumer group as records of `__consumer_offsets`, in the format of Apache Kafka 4.3."""

from collections.abc import Callable

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import ClassicProtocolState, ConsumerMember
from kohort.coordinator.consumer.partitions import Partitions
from kohort.coordinator.consumer.topics import ResolvedExpression
from kohort.model import UUID, Millis
from kohort.wire.group_log import Record
from kohort.wire.messages.group_records import (
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
    """Return the record of the group epoch and the hash of the subscribed topics at it."""
    signed = (metadata_hash + _INT64) % (2 * _INT64) - _INT64
    return Record(
        ConsumerGroupMetadataKey(group_id=group_id), ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=signed)
    )


def member_metadata(group_id: str, member: ConsumerMember) -> Record:
    """Return the record of a member's identity and subscription."""
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
    """Return the record of the target assignment's epoch, which is written after the members' targets."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=computed_at)
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target(group_id: str, member_id: str, partitions: Partitions) -> Record:
    """Return the record of a member's target assignment."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartition(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in partitions.by_topic.items()
        ]
    )
    return Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current(group_id: str, member: ConsumerMember, since: Callable[[UUID, int], int]) -> Record:
    """Return the record of a member's assignment and pending revocations.

    `since` returns the epoch in which a partition was assigned to the member.
    """
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_with_epochs(member.assigned, since),
        partitions_pending_revocation=_with_epochs(member.revoking, since),
    )
    return Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def resolved_expression(group_id: str, expression: str, resolved: ResolvedExpression) -> Record:
    """Return the record of the topics that an expression matches."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.resolved_at
    )
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression), value)


# Tombstones


def no_expression(group_id: str, expression: str) -> Record:
    """Return the tombstone of an expression to which no member subscribes any more."""
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression), None)


def no_member(group_id: str, member_id: str) -> list[Record]:
    """Return the tombstones of a member.

    A loader needs them in this order: first the member's partitions, last its metadata.
    """
    return [
        Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def no_partition_metadata(group_id: str) -> Record:
    """Return the tombstone of the partition metadata that a broker before 4.1 wrote. It is no longer used."""
    return Record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def no_group_and_members(group: ConsumerGroup) -> list[Record]:
    """Return the tombstones of a group and its members."""
    members = [record for member_id in group.members for record in no_member(group.group_id, member_id)]
    return members + no_group(group)


def no_group(group: ConsumerGroup) -> list[Record]:
    """Return the tombstones of a group whose members were removed."""
    group_id = group.group_id
    records = [Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)]
    records += [no_expression(group_id, expression) for expression in group.topics.resolved]
    if group.has_partition_metadata:
        records.append(no_partition_metadata(group_id))
    records.append(Record(ConsumerGroupMetadataKey(group_id=group_id), None))
    return records


def _classic(classic: ClassicProtocolState | None) -> ClassicMemberMetadata | None:
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
