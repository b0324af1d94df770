"""OffsetDelete: forget what a group committed for topics it no longer reads (KIP-496)."""

from kohort.wire.codec import Int16, Int32, Message, String, Struct, array, message, struct


@struct
class OffsetDeleteRequestPartition(Struct):
    """A partition whose offset is to go."""

    partition_index: Int32 = 0


@struct
class OffsetDeleteRequestTopic(Struct):
    """Partitions of one topic."""

    name: String = ""
    partitions: list[OffsetDeleteRequestPartition] = array()


@message(key=47, versions=(0, 0))
class OffsetDeleteRequest(Message):
    """Delete a group's offsets."""

    group_id: String = ""
    topics: list[OffsetDeleteRequestTopic] = array()


@struct
class OffsetDeleteResponsePartition(Struct):
    """Whether one offset was deleted."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic(Struct):
    """Whether one topic's offsets were deleted."""

    name: String = ""
    partitions: list[OffsetDeleteResponsePartition] = array()


@message(key=47, versions=(0, 0))
class OffsetDeleteResponse(Message):
    """Whether the offsets were deleted."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = array()
