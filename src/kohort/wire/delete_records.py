"""DeleteRecords: move the start of partitions forward (KIP-107)."""

from kohort.wire.codec import Int16, Int32, Int64, Message, String, Struct, array, message, struct


@struct
class DeleteRecordsPartition(Struct):
    """The new start of one partition; -1 is its end."""

    partition_index: Int32 = 0
    offset: Int64 = 0


@struct
class DeleteRecordsTopic(Struct):
    """New starts of one topic's partitions."""

    name: String = ""
    partitions: list[DeleteRecordsPartition] = array()


@message(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsRequest(Message):
    """Ask to forget all records before some offsets."""

    topics: list[DeleteRecordsTopic] = array()
    timeout_ms: Int32 = 0


@struct
class DeleteRecordsPartitionResult(Struct):
    """Where one partition starts now."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult(Struct):
    """Where one topic's partitions start now."""

    name: String = ""
    partitions: list[DeleteRecordsPartitionResult] = array()


@message(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsResponse(Message):
    """Where the partitions start now."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = array()
