"""DescribeProducers: describe the active producers of partitions (KIP-664)."""

from kohort.wire.codec import Int16, Int32, Int64, Message, NullableString, String, Struct, array, message, struct


@struct
class TopicRequest(Struct):
    """Requested partitions of one topic."""

    name: String = ""
    partition_indexes: list[Int32] = array()


@message(key=61, versions=(0, 0), flexible=0)
class DescribeProducersRequest(Message):
    """Describe the producers of partitions."""

    topics: list[TopicRequest] = array()


@struct
class ProducerState(Struct):
    """State of a producer after its last batch."""

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@struct
class PartitionResponse(Struct):
    """Producers of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    active_producers: list[ProducerState] = array()


@struct
class TopicResponse(Struct):
    """Producers of one topic's partitions."""

    name: String = ""
    partitions: list[PartitionResponse] = array()


@message(key=61, versions=(0, 0), flexible=0)
class DescribeProducersResponse(Message):
    """Producers of each partition."""

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = array()
