"""Produce: append record batches."""

from kohort.wire.codec import (
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    Records,
    String,
    Struct,
    Uuid,
    array,
    message,
    since,
    struct,
)
from kohort.wire.messages.current_leader import LeaderIdAndEpoch, NodeEndpoint


@struct
class PartitionProduceData(Struct):
    """Record batches for one partition."""

    index: Int32 = 0
    records: Records = None


@struct
class TopicProduceData(Struct):
    """Record batches for one topic."""

    name: String = since(0, until=12, ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)  # KIP-516
    partition_data: list[PartitionProduceData] = array()


@message(key=0, versions=(3, 13), flexible=9)
class ProduceRequest(Message):
    """Append record batches to several partitions. Each is accepted or rejected independently."""

    transactional_id: NullableString = None
    acks: Int16 = 0  # -1: wait for all in-sync replicas
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = array()


@struct
class BatchIndexAndErrorMessage(Struct):
    """A record that caused the broker to reject its batch (KIP-467)."""

    batch_index: Int32 = 0
    batch_index_error_message: NullableString = None


@struct
class PartitionProduceResponse(Struct):
    """Offset of a partition's batches, or the error code."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1  # -1 unless the topic uses log append time
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = since(8, ignorable=True)
    error_message: NullableString = since(8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = since(10, tag=0, ignorable=True)  # KIP-951


@struct
class TopicProduceResponse(Struct):
    """Results for one topic's partitions."""

    name: String = since(0, until=12, ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array()


@message(key=0, versions=(3, 13), flexible=9)
class ProduceResponse(Message):
    """Result for each partition. There is no response to a request with acks 0."""

    responses: list[TopicProduceResponse] = array()
    throttle_time_ms: Int32 = 0
    node_endpoints: list[NodeEndpoint] = since(10, tag=0, ignorable=True)
