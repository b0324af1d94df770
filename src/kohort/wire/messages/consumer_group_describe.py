"""ConsumerGroupDescribe: describe the state and the members of consumer groups (KIP-848)."""

from kohort.model import NO_TOPIC_ID
from kohort.wire.codec import (
    NOT_ASKED,
    Bool,
    Int8,
    Int16,
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


@message(key=69, versions=(0, 1), flexible=0)
class ConsumerGroupDescribeRequest(Message):
    """Describe groups by ID."""

    group_ids: list[String] = array()
    include_authorized_operations: Bool = False


@struct
class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = NO_TOPIC_ID
    topic_name: String = ""
    partitions: list[Int32] = array()


@struct
class Assignment(Struct):
    """Current or target assignment of a member."""

    topic_partitions: list[TopicPartitions] = array()


@struct
class Member(Struct):
    """Description of a member."""

    member_id: String = ""
    instance_id: NullableString = None
    rack_id: NullableString = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = array()
    subscribed_topic_regex: NullableString = None
    assignment: Assignment = since(0)
    target_assignment: Assignment = since(0)
    member_type: Int8 = since(1, default=-1, ignorable=True)  # KIP-1099: 0 classic, 1 consumer, -1 unknown
    reason: NullableString = since(0, default=None, tag=10_000)  # Kohort only: reason for the target assignment
    since_ms: Int64 = since(0, default=-1, tag=10_001)  # Kohort only: last change of its assignment, in epoch ms


@struct
class DescribedGroup(Struct):
    """Description of a group."""

    error_code: Int16 = 0
    error_message: NullableString = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[Member] = array()
    authorized_operations: Int32 = NOT_ASKED
    target_since_ms: Int64 = since(0, default=-1, tag=10_000)  # Kohort only: time of the target, in epoch ms


@message(key=69, versions=(0, 1), flexible=0)
class ConsumerGroupDescribeResponse(Message):
    """Description of each group."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = array()
