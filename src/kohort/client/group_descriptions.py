"""What an operator is told of a group and its members, whichever protocol it uses."""

from dataclasses import dataclass

from kohort.client.metadata import Broker
from kohort.model import Millis, TopicPartition
from kohort.wire.codec import DecodeError
from kohort.wire.consumer_group_describe import Assignment
from kohort.wire.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kohort.wire.consumer_group_describe import Member as DescribedConsumerMember
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription
from kohort.wire.describe_groups import DescribedGroup, DescribedGroupMember


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member and what it was assigned; `topics` is what it asked for by name.

    What follows the assignment is known of members of consumer groups alone (KIP-848), else it is None.
    """

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    topics: frozenset[str]
    assignment: frozenset[TopicPartition]
    target: frozenset[TopicPartition] | None = None
    """What it should own; it differs from the assignment while partitions change hands."""
    epoch: int | None = None
    expression: str | None = None
    """The regular expression that it subscribes by, if it does."""
    rack: str | None = None
    protocol: str | None = None
    """`classic` for a member whose group changes its protocol, or `consumer`; None with a broker too old to say."""
    reason: str | None = None
    """Why it should have what it should have; None with Apache Kafka, which does not say."""
    since_ms: Millis | None = None
    """Since when it has what it has, and waits for what it waits for; None with Apache Kafka, and after a failover."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. Its state is as Kafka prints it; that of a group which does not exist is Dead."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Broker | None
    members: tuple[MemberDescription, ...]
    type: str = "classic"
    """`classic`, or `consumer` (KIP-848)."""
    epoch: int | None = None
    """The group epoch, of a consumer group; it rises with every change of members, subscriptions and topics."""
    target_epoch: int | None = None
    """The group epoch for which the members' targets were computed."""
    target_since_ms: Millis | None = None
    """When that was; None with Apache Kafka, which does not say."""


def classic_description(group: DescribedGroup, coordinator: Broker | None) -> GroupDescription:
    """From an answer to DescribeGroups."""
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=tuple(_classic_member(one) for one in group.members),
    )


def consumer_description(group: DescribedConsumerGroup, coordinator: Broker | None) -> GroupDescription:
    """From an answer to ConsumerGroupDescribe."""
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type="consumer",
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(_consumer_member(one) for one in group.members),
        type="consumer",
        epoch=group.group_epoch,
        target_epoch=group.assignment_epoch,
        target_since_ms=None if group.target_since_ms < 0 else group.target_since_ms,
    )


def _consumer_member(one: DescribedConsumerMember) -> MemberDescription:
    return MemberDescription(
        member_id=one.member_id,
        client_id=one.client_id,
        client_host=one.client_host,
        instance_id=one.instance_id,
        topics=frozenset(one.subscribed_topic_names),
        assignment=_partitions(one.assignment),
        target=_partitions(one.target_assignment),
        epoch=one.member_epoch,
        expression=one.subscribed_topic_regex or None,
        rack=one.rack_id,
        protocol=_PROTOCOLS.get(one.member_type),
        reason=one.reason,
        since_ms=None if one.since_ms < 0 else one.since_ms,
    )


_PROTOCOLS = {0: "classic", 1: "consumer"}


def _partitions(assignment: Assignment) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions
    )


def _classic_member(one: DescribedGroupMember) -> MemberDescription:
    topics: frozenset[str] = frozenset()
    assignment: frozenset[TopicPartition] = frozenset()
    try:
        # A group of another protocol type (Kafka Connect's) has other bytes here.
        if one.member_metadata:
            topics = frozenset(decode_subscription(one.member_metadata).topics)
        if one.member_assignment:
            assignment = frozenset(decode_assignment(one.member_assignment).partitions)
    except DecodeError:
        topics, assignment = frozenset(), frozenset()
    return MemberDescription(one.member_id, one.client_id, one.client_host, one.group_instance_id, topics, assignment)
