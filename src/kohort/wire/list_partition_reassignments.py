"""ListPartitionReassignments: the reassignments that are in progress (KIP-455)."""

from kohort.wire.codec import Int16, Int32, Message, NullableString, String, Struct, array, message, struct


@struct
class ListPartitionReassignmentsTopics(Struct):
    """Partitions of one topic."""

    name: String = ""
    partition_indexes: list[Int32] = array()


@message(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest(Message):
    """Ask for some partitions, or for all (null)."""

    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@struct
class OngoingPartitionReassignment(Struct):
    """The replicas of one partition, and which of them come and go."""

    partition_index: Int32 = 0
    replicas: list[Int32] = array()
    adding_replicas: list[Int32] = array()
    removing_replicas: list[Int32] = array()


@struct
class OngoingTopicReassignment(Struct):
    """The partitions of one topic that are reassigned."""

    name: String = ""
    partitions: list[OngoingPartitionReassignment] = array()


@message(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsResponse(Message):
    """The reassignments in progress."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    topics: list[OngoingTopicReassignment] = array()
