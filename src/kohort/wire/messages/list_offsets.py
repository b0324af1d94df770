"""ListOffsets: find the offset for a timestamp, or the start or end offset."""

from kohort.wire.codec import Int8, Int16, Int32, Int64, Message, String, Struct, array, message, since, struct


@struct
class ListOffsetsPartition(Struct):
    """Timestamp to look up: -1 is the end, -2 the start, -3 the record with the largest timestamp (KIP-734)."""

    partition_index: Int32 = 0
    current_leader_epoch: Int32 = since(4, default=-1, ignorable=True)
    timestamp: Int64 = 0


@struct
class ListOffsetsTopic(Struct):
    """Timestamps to look up in one topic."""

    name: String = ""
    partitions: list[ListOffsetsPartition] = array()


@message(key=2, versions=(1, 11), flexible=6)
class ListOffsetsRequest(Message):
    """Find the first offsets at or after timestamps."""

    replica_id: Int32 = -1  # -1: a consumer
    isolation_level: Int8 = since(2)
    topics: list[ListOffsetsTopic] = array()
    timeout_ms: Int32 = since(10, ignorable=True)  # KIP-1075


@struct
class ListOffsetsPartitionResponse(Struct):
    """Offset and timestamp of the record found, or -1 if no record is at or after the timestamp."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = since(4, default=-1)


@struct
class ListOffsetsTopicResponse(Struct):
    """Offsets found in one topic."""

    name: String = ""
    partitions: list[ListOffsetsPartitionResponse] = array()


@message(key=2, versions=(1, 11), flexible=6)
class ListOffsetsResponse(Message):
    """Offset found for each partition."""

    throttle_time_ms: Int32 = since(2, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array()
