"""DeleteRecords: delete records before given offsets (KIP-107)."""

from kohort.wire.codec import Int16, Int32, Int64, Message, String, Struct, array, message, struct


@struct
class DeleteRecordsPartition(Struct):
    """New start offset of one partition; -1 means its end."""

    partition_index: Int32 = 0
    offset: Int64 = 0


@struct
class DeleteRecordsTopic(Struct):
    """New start offsets of one topic's partitions."""

    name: String = ""
    partitions: list[DeleteRecordsPartition] = array()


@message(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsRequest(Message):
    """Delete all records before the given offsets."""

    topics: list[DeleteRecordsTopic] = array()
    timeout_ms: Int32 = 0


@struct
class DeleteRecordsPartitionResult(Struct):
    """New start offset of one partition."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult(Struct):
    """New start offsets of one topic's partitions."""

    name: String = ""
    partitions: list[DeleteRecordsPartitionResult] = array()


@message(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsResponse(Message):
    """New start offset of each partition."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = array()
