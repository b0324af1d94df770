"""Descriptions of groups and members, for both group protocols."""

from dataclasses import dataclass

from kohort.model import Millis, TopicPartition
from kohort.requests import Broker
from kohort.wire.codec import DecodeError
from kohort.wire.messages.consumer_group_describe import Assignment
from kohort.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kohort.wire.messages.consumer_group_describe import Member as DescribedConsumerMember
from kohort.wire.messages.consumer_protocol import decode_assignment, decode_subscription
from kohort.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """Member of a group with its assignment. `topics` has the topics to which it subscribes by name.

    The fields after `assignment` are known only for members of consumer groups (KIP-848), otherwise
    None.
    """

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    topics: frozenset[str]
    assignment: frozenset[TopicPartition]
    target: frozenset[TopicPartition] | None = None
    """Target assignment, which differs from the assignment while partitions move between members."""
    epoch: int | None = None
    expression: str | None = None
    """Regular expression of its subscription, if any."""
    rack: str | None = None
    protocol: str | None = None
    """Protocol: `classic` for a member of a group in migration, or `consumer`; None if the broker
    is too old to tell."""
    reason: str | None = None
    """Reason for the target assignment; None with Apache Kafka, which does not report it."""
    since_ms: Millis | None = None
    """Time since which the member has its current assignment and state, in milliseconds since the epoch.

    None with Apache Kafka and after a failover.
    """


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """Group with its members. The state is named as in Kafka; a group that does not exist is Dead."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Broker | None
    members: tuple[MemberDescription, ...]
    type: str = "classic"
    """Group type: `classic`, or `consumer` (KIP-848)."""
    epoch: int | None = None
    """Group epoch of a consumer group; it increases with every change of members, subscriptions or topics."""
    target_epoch: int | None = None
    """Group epoch for which the members' targets were computed."""
    target_since_ms: Millis | None = None
    """Time of that computation, in milliseconds since the epoch; None with Apache Kafka, which does
    not report it."""


def classic_description(group: DescribedGroup, coordinator: Broker | None) -> GroupDescription:
    """Convert a DescribeGroups response."""
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=tuple(_classic_member(member) for member in group.members),
    )


def consumer_description(group: DescribedConsumerGroup, coordinator: Broker | None) -> GroupDescription:
    """Convert a ConsumerGroupDescribe response."""
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type="consumer",
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(_consumer_member(member) for member in group.members),
        type="consumer",
        epoch=group.group_epoch,
        target_epoch=group.assignment_epoch,
        target_since_ms=None if group.target_since_ms < 0 else group.target_since_ms,
    )


def _consumer_member(member: DescribedConsumerMember) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host,
        instance_id=member.instance_id,
        topics=frozenset(member.subscribed_topic_names),
        assignment=_partitions(member.assignment),
        target=_partitions(member.target_assignment),
        epoch=member.member_epoch,
        expression=member.subscribed_topic_regex or None,
        rack=member.rack_id,
        protocol=_PROTOCOLS.get(member.member_type),
        reason=member.reason,
        since_ms=None if member.since_ms < 0 else member.since_ms,
    )


_PROTOCOLS = {0: "classic", 1: "consumer"}


def _partitions(assignment: Assignment) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions
    )


def _classic_member(member: DescribedGroupMember) -> MemberDescription:
    topics: frozenset[str] = frozenset()
    assignment: frozenset[TopicPartition] = frozenset()
    try:
        # A group of another protocol type (such as Kafka Connect's) has different bytes here.
        if member.member_metadata:
            topics = frozenset(decode_subscription(member.member_metadata).topics)
        if member.member_assignment:
            assignment = frozenset(decode_assignment(member.member_assignment).partitions)
    except DecodeError:
        topics, assignment = frozenset(), frozenset()
    return MemberDescription(
        member.member_id, member.client_id, member.client_host, member.group_instance_id, topics, assignment
    )
