"""ListOffsets: the offset of a timestamp, of the start or of the end."""

from kohort.wire.codec import Int8, Int16, Int32, Int64, Message, String, Struct, array, message, since, struct


@struct
class ListOffsetsPartition(Struct):
    partition_index: Int32 = 0
    current_leader_epoch: Int32 = since(4, default=-1, ignorable=True)
    timestamp: Int64 = 0


@struct
class ListOffsetsTopic(Struct):
    name: String = ""
    partitions: list[ListOffsetsPartition] = array()


@message(key=2, versions=(1, 11), flexible=6)
class ListOffsetsRequest(Message):
    replica_id: Int32 = 0
    isolation_level: Int8 = since(2)
    topics: list[ListOffsetsTopic] = array()
    timeout_ms: Int32 = since(10, ignorable=True)


@struct
class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = since(4, default=-1)


@struct
class ListOffsetsTopicResponse(Struct):
    name: String = ""
    partitions: list[ListOffsetsPartitionResponse] = array()


@message(key=2, versions=(1, 11), flexible=6)
class ListOffsetsResponse(Message):
    throttle_time_ms: Int32 = since(2, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array()
