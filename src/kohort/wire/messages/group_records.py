"""Schemas of the `__consumer_offsets` records that Apache Kafka 4.3 writes.

Tools for Kafka can read Kohort's records, and vice versa. `kohort.wire.group_log` encodes and
decodes the records. A record without a value deletes its key.
"""

from kohort.wire.codec import (
    Bytes,
    Float64,
    Int8,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Struct,
    Uuid,
    array,
    message,
    since,
    struct,
)

# Offsets of groups of any type.


@message(key=0, versions=(0, 0))
class LegacyOffsetCommitKey(Message):
    """Key of a commit that a broker before 0.9 wrote. Brokers still read it."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@message(key=0, versions=(0, 0))
class LegacyOffsetCommitValue(Message):
    """Committed offset in the format of brokers before 0.9."""

    offset: Int64 = 0
    metadata: String = ""
    commit_timestamp: Int64 = 0


@message(key=1, versions=(0, 0))
class OffsetCommitKey(Message):
    """Key of a group's committed offset for one partition."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@message(key=1, versions=(0, 4), flexible=4)
class OffsetCommitValue(Message):
    """Committed offset: `offset` is the next one to read."""

    offset: Int64 = 0
    leader_epoch: Int32 = since(3, default=-1, ignorable=True)
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = since(1, until=1, default=-1, ignorable=True)
    topic_id: Uuid = since(4, tag=0, ignorable=True)  # KAFKA-19141: a recreated topic starts without offsets


# Classic groups.


@message(key=2, versions=(0, 0))
class GroupMetadataKey(Message):
    """Key of a classic group."""

    group: String = ""


@struct
class MemberMetadata(Struct):
    """A member of a classic group in one generation."""

    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Int32 = since(1, default=-1, ignorable=True)
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


@message(key=2, versions=(0, 4), flexible=4)
class GroupMetadataValue(Message):
    """Generation of a classic group, with the assignment of each member."""

    protocol_type: String = ""
    generation: Int32 = 0
    protocol: NullableString = ""
    leader: NullableString = ""
    current_state_timestamp: Int64 = since(2, default=-1, ignorable=True)  # KIP-211: an empty group's offsets expire
    members: list[MemberMetadata] = array()


# Consumer groups (KIP-848).


@message(key=3, versions=(0, 0))
class ConsumerGroupMetadataKey(Message):
    """Key of a consumer group."""

    group_id: String = ""


@message(key=3, versions=(0, 0), flexible=0)
class ConsumerGroupMetadataValue(Message):
    """Group epoch, and the hash of the subscribed topics at it."""

    epoch: Int32 = 0
    metadata_hash: Int64 = since(0, tag=0)


@message(key=4, versions=(0, 0))
class ConsumerGroupPartitionMetadataKey(Message):
    """Key of the subscribed topics, as stored by brokers before 4.1. Newer brokers only delete it."""

    group_id: String = ""


@struct
class PartitionMetadata(Struct):
    """Racks of one partition's replicas."""

    partition: Int32 = 0
    racks: list[String] = array()


@struct
class TopicMetadata(Struct):
    """A subscribed topic."""

    topic_id: Uuid = since(0)
    topic_name: String = ""
    num_partitions: Int32 = 0
    partition_metadata: list[PartitionMetadata] = array()


@message(key=4, versions=(0, 0), flexible=0)
class ConsumerGroupPartitionMetadataValue(Message):
    """All topics that the group subscribes to."""

    topics: list[TopicMetadata] = array()


@message(key=5, versions=(0, 0))
class ConsumerGroupMemberMetadataKey(Message):
    """Key of the metadata of a consumer group's member."""

    group_id: String = ""
    member_id: String = ""


@struct
class ClassicProtocol(Struct):
    """An assignor that a classic member supports, with its subscription."""

    name: String = ""
    metadata: Bytes = b""


@struct
class ClassicMemberMetadata(Struct):
    """State of a consumer group's member that uses the classic protocol."""

    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = array()


@message(key=5, versions=(0, 0), flexible=0)
class ConsumerGroupMemberMetadataValue(Message):
    """Identity and subscription of a member."""

    instance_id: NullableString = ""
    rack_id: NullableString = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = array()
    subscribed_topic_regex: NullableString = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: NullableString = ""
    classic_member_metadata: ClassicMemberMetadata | None = since(0, nullable=0, tag=0)
    weight: Float64 = since(0, default=-1.0, tag=10_000)  # Kohort only; Kafka skips it. -1: not set


@message(key=6, versions=(0, 0))
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """Key of the metadata of a group's target assignment."""

    group_id: String = ""


@message(key=6, versions=(0, 0), flexible=0)
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """Group epoch for which the target assignment was computed."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = since(0, tag=0, ignorable=True)


@message(key=7, versions=(0, 0))
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Key of one member's target assignment."""

    group_id: String = ""
    member_id: String = ""


@struct
class TargetTopicPartition(Struct):
    """Partitions of one topic, called TopicPartition in Kafka's schema."""

    topic_id: Uuid = since(0)
    partitions: list[Int32] = array()


@message(key=7, versions=(0, 0), flexible=0)
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """Target assignment of one member."""

    topic_partitions: list[TargetTopicPartition] = array()


@message(key=8, versions=(0, 0))
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Key of one member's current assignment."""

    group_id: String = ""
    member_id: String = ""


@struct
class TopicPartitions(Struct):
    """Partitions of one topic, each with the epoch in which it was assigned to the member."""

    topic_id: Uuid = since(0)
    partitions: list[Int32] = array()
    assignment_epochs: list[Int32] | None = since(0, default=None, tag=0)


@message(key=8, versions=(0, 0), flexible=0)
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """Partitions that one member owns, and those that it must revoke first."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = array()
    partitions_pending_revocation: list[TopicPartitions] = array()


@message(key=16, versions=(0, 0))
class ConsumerGroupRegularExpressionKey(Message):
    """Key of a regular expression in members' subscriptions."""

    group_id: String = ""
    regular_expression: String = ""


@message(key=16, versions=(0, 0), flexible=0)
class ConsumerGroupRegularExpressionValue(Message):
    """Topics that the expression matched, and the time. `version` is that of the broker's metadata."""

    topics: list[String] = array()
    version: Int64 = 0
    timestamp: Int64 = 0


# Share groups. Their IDs are not available for other groups.


@message(key=11, versions=(0, 0))
class ShareGroupMetadataKey(Message):
    """Key of a share group."""

    group_id: String = ""


@message(key=11, versions=(0, 0), flexible=0)
class ShareGroupMetadataValue(Message):
    """Group epoch, and the hash of the subscribed topics."""

    epoch: Int32 = 0
    metadata_hash: Int64 = 0
