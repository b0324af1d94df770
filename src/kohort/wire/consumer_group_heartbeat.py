"""ConsumerGroupHeartbeat: all that a member of a consumer group says to its coordinator (KIP-848)."""

from kohort.model import NO_TOPIC_ID
from kohort.wire.codec import (
    Int16,
    Int32,
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


@struct
class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = NO_TOPIC_ID
    partitions: list[Int32] = array()


@message(key=68, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatRequest(Message):
    """What has not changed since the last heartbeat is null (-1 for the timeout)."""

    group_id: String = ""
    member_id: String = ""  # KIP-1082: the member makes it from version 1 on
    member_epoch: Int32 = 0  # 0 joins, -1 leaves, -2 leaves for a while (a static member)
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = since(0, default=None)
    subscribed_topic_regex: NullableString = since(1, default=None)
    server_assignor: NullableString = None
    topic_partitions: list[TopicPartitions] | None = since(0, default=None)


@struct
class Assignment(Struct):
    """What the member may use at once."""

    topic_partitions: list[TopicPartitions] = array()


@message(key=68, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatResponse(Message):
    """The assignment is null where the member has been told of it before."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
