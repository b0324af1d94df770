"""The records of `__consumer_offsets`, as Apache Kafka 4.3 writes them, so that either's tools read the other's.

`group_bytes` makes bytes of them. A record without a value deletes what its key names.
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

# Offsets, of any group.


@message(key=0, versions=(0, 0))
class LegacyOffsetCommitKey(Message):
    """Of a commit that a broker before 0.9 wrote; brokers still read it."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@message(key=0, versions=(0, 0))
class LegacyOffsetCommitValue(Message):
    """How far the group had come."""

    offset: Int64 = 0
    metadata: String = ""
    commit_timestamp: Int64 = 0


@message(key=1, versions=(0, 0))
class OffsetCommitKey(Message):
    """Of what a group committed for one partition."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@message(key=1, versions=(0, 4), flexible=4)
class OffsetCommitValue(Message):
    """How far the group has come: `offset` is the next to read."""

    offset: Int64 = 0
    leader_epoch: Int32 = since(3, default=-1, ignorable=True)
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = since(1, until=1, default=-1, ignorable=True)
    topic_id: Uuid = since(4, tag=0, ignorable=True)  # KAFKA-19141: a topic that was made anew starts without offsets


# Classic groups.


@message(key=2, versions=(0, 0))
class GroupMetadataKey(Message):
    """Of a classic group."""

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
    """One generation of a classic group, with what each member was given."""

    protocol_type: String = ""
    generation: Int32 = 0
    protocol: NullableString = ""
    leader: NullableString = ""
    current_state_timestamp: Int64 = since(2, default=-1, ignorable=True)  # KIP-211: an empty group's offsets expire
    members: list[MemberMetadata] = array()


# Consumer groups (KIP-848).


@message(key=3, versions=(0, 0))
class ConsumerGroupMetadataKey(Message):
    """Of a consumer group."""

    group_id: String = ""


@message(key=3, versions=(0, 0), flexible=0)
class ConsumerGroupMetadataValue(Message):
    """The group epoch, and a hash of what the subscribed topics looked like at it."""

    epoch: Int32 = 0
    metadata_hash: Int64 = since(0, tag=0)


@message(key=4, versions=(0, 0))
class ConsumerGroupPartitionMetadataKey(Message):
    """Of the subscribed topics as brokers before 4.1 stored them; newer ones only delete it."""

    group_id: String = ""


@struct
class PartitionMetadata(Struct):
    """The racks of one partition's replicas."""

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
    """Of what a member of a consumer group asks for."""

    group_id: String = ""
    member_id: String = ""


@struct
class ClassicProtocol(Struct):
    """An assignor that a classic member supports, with its subscription."""

    name: String = ""
    metadata: Bytes = b""


@struct
class ClassicMemberMetadata(Struct):
    """What is known of a member of a consumer group that speaks the classic protocol."""

    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = array()


@message(key=5, versions=(0, 0), flexible=0)
class ConsumerGroupMemberMetadataValue(Message):
    """Who a member is and what it asks for."""

    instance_id: NullableString = ""
    rack_id: NullableString = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = array()
    subscribed_topic_regex: NullableString = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: NullableString = ""
    classic_member_metadata: ClassicMemberMetadata | None = since(0, nullable=0, tag=0)
    weight: Float64 = since(0, default=-1.0, tag=10_000)  # ours, which Kafka skips: -1 for a member that says none


@message(key=6, versions=(0, 0))
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """Of a group's target assignment as a whole."""

    group_id: String = ""


@message(key=6, versions=(0, 0), flexible=0)
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The group epoch that the target assignment was computed for."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = since(0, tag=0, ignorable=True)


@message(key=7, versions=(0, 0))
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Of what one member should own."""

    group_id: String = ""
    member_id: String = ""


@struct
class TargetTopicPartition(Struct):
    """Partitions of one topic; Kafka's schema calls it TopicPartition."""

    topic_id: Uuid = since(0)
    partitions: list[Int32] = array()


@message(key=7, versions=(0, 0), flexible=0)
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """What one member should own."""

    topic_partitions: list[TargetTopicPartition] = array()


@message(key=8, versions=(0, 0))
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Of what one member owns."""

    group_id: String = ""
    member_id: String = ""


@struct
class TopicPartitions(Struct):
    """Partitions of one topic, each with the epoch in which the member was given it."""

    topic_id: Uuid = since(0)
    partitions: list[Int32] = array()
    assignment_epochs: list[Int32] | None = since(0, default=None, tag=0)


@message(key=8, versions=(0, 0), flexible=0)
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """What one member owns, and what it must give up first."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = array()
    partitions_pending_revocation: list[TopicPartitions] = array()


@message(key=16, versions=(0, 0))
class ConsumerGroupRegularExpressionKey(Message):
    """Of a regular expression that members subscribe to."""

    group_id: String = ""
    regular_expression: String = ""


@message(key=16, versions=(0, 0), flexible=0)
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that it matched, and when (`version` is that of the broker's metadata)."""

    topics: list[String] = array()
    version: Int64 = 0
    timestamp: Int64 = 0


# Share groups, whose ids are taken for the others.


@message(key=11, versions=(0, 0))
class ShareGroupMetadataKey(Message):
    """Of a share group."""

    group_id: String = ""


@message(key=11, versions=(0, 0), flexible=0)
class ShareGroupMetadataValue(Message):
    """The group epoch, and a hash of the subscribed topics."""

    epoch: Int32 = 0
    metadata_hash: Int64 = 0
