"""OffsetDelete: delete a group's committed offsets of topics that it no longer reads (KIP-496)."""

from kohort.wire.codec import Int16, Int32, Message, String, Struct, array, message, struct


@struct
class OffsetDeleteRequestPartition(Struct):
    """A partition whose committed offset is to be deleted."""

    partition_index: Int32 = 0


@struct
class OffsetDeleteRequestTopic(Struct):
    """Partitions of one topic."""

    name: String = ""
    partitions: list[OffsetDeleteRequestPartition] = array()


@message(key=47, versions=(0, 0))
class OffsetDeleteRequest(Message):
    """Delete committed offsets of a group."""

    group_id: String = ""
    topics: list[OffsetDeleteRequestTopic] = array()


@struct
class OffsetDeleteResponsePartition(Struct):
    """Result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic(Struct):
    """Results for one topic's partitions."""

    name: String = ""
    partitions: list[OffsetDeleteResponsePartition] = array()


@message(key=47, versions=(0, 0))
class OffsetDeleteResponse(Message):
    """Result for each partition."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = array()
