"""AlterPartitionReassignments: give partitions other replicas, or call that off (KIP-455, KIP-860)."""

from kohort.wire.codec import (
    Bool,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    since,
    struct,
)


@struct
class ReassignablePartition(Struct):
    """The replicas that a partition is to have; null calls its reassignment off."""

    partition_index: Int32 = 0
    replicas: list[Int32] | None = None


@struct
class ReassignableTopic(Struct):
    """Partitions of one topic."""

    name: String = ""
    partitions: list[ReassignablePartition] = array()


@message(key=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsRequest(Message):
    """Begin to reassign partitions."""

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = since(1, default=True)  # KIP-860
    topics: list[ReassignableTopic] = array()


@struct
class ReassignablePartitionResponse(Struct):
    """What became of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""


@struct
class ReassignableTopicResponse(Struct):
    """What became of one topic's partitions."""

    name: String = ""
    partitions: list[ReassignablePartitionResponse] = array()


@message(key=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsResponse(Message):
    """What became of each partition."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = since(1, default=True, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = ""
    responses: list[ReassignableTopicResponse] = array()
