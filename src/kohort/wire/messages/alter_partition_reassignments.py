"""AlterPartitionReassignments: assign other replicas to partitions, or cancel that (KIP-455, KIP-860)."""

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
    """New replicas of a partition, or null to cancel its reassignment."""

    partition_index: Int32 = 0
    replicas: list[Int32] | None = None


@struct
class ReassignableTopic(Struct):
    """Partitions of one topic."""

    name: String = ""
    partitions: list[ReassignablePartition] = array()


@message(key=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsRequest(Message):
    """Start or cancel reassignments of partitions."""

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = since(1, default=True)  # KIP-860
    topics: list[ReassignableTopic] = array()


@struct
class ReassignablePartitionResponse(Struct):
    """Result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""


@struct
class ReassignableTopicResponse(Struct):
    """Results for one topic's partitions."""

    name: String = ""
    partitions: list[ReassignablePartitionResponse] = array()


@message(key=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsResponse(Message):
    """Result for each partition."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = since(1, default=True, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = ""
    responses: list[ReassignableTopicResponse] = array()
