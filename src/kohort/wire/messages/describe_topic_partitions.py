"""DescribeTopicPartitions: describe topics with pagination (KIP-966)."""

from kohort.model import NO_TOPIC_ID
from kohort.wire.codec import (
    NOT_ASKED,
    Bool,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    Uuid,
    array,
    message,
    struct,
)


@struct
class TopicRequest(Struct):
    """Name of a requested topic."""

    name: String = ""


@struct
class Cursor(Struct):
    """Start of the next page."""

    topic_name: String = ""
    partition_index: Int32 = 0


@message(key=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest(Message):
    """Describe topics by name, from the cursor on."""

    topics: list[TopicRequest] = array()
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition(Struct):
    """Leader and replicas of a partition."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32] = array()
    isr_nodes: list[Int32] = array()
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32] = array()


@struct
class DescribeTopicPartitionsResponseTopic(Struct):
    """Description of a topic, or the error code."""

    error_code: Int16 = 0
    name: NullableString = ""
    topic_id: Uuid = NO_TOPIC_ID
    is_internal: Bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = array()
    topic_authorized_operations: Int32 = NOT_ASKED


@message(key=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsResponse(Message):
    """A page of topics, and the cursor for the next, if any."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = array()
    next_cursor: Cursor | None = None
