"""ListPartitionReassignments: list the reassignments in progress (KIP-455)."""

from kohort.wire.codec import Int16, Int32, Message, NullableString, String, Struct, array, message, struct


@struct
class ListPartitionReassignmentsTopics(Struct):
    """Partitions of one topic."""

    name: String = ""
    partition_indexes: list[Int32] = array()


@message(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest(Message):
    """List the reassignments of some partitions, or of all (null)."""

    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@struct
class OngoingPartitionReassignment(Struct):
    """Replicas of one partition, and which of them are being added and removed."""

    partition_index: Int32 = 0
    replicas: list[Int32] = array()
    adding_replicas: list[Int32] = array()
    removing_replicas: list[Int32] = array()


@struct
class OngoingTopicReassignment(Struct):
    """Partitions of one topic that are being reassigned."""

    name: String = ""
    partitions: list[OngoingPartitionReassignment] = array()


@message(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsResponse(Message):
    """Reassignments in progress."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    topics: list[OngoingTopicReassignment] = array()
