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
from kohort.wire.current_leader import LeaderIdAndEpoch, NodeEndpoint


@struct
class PartitionProduceData(Struct):
    """The batches for one partition."""

    index: Int32 = 0
    records: Records = None


@struct
class TopicProduceData(Struct):
    """The batches for one topic."""

    name: String = since(0, until=12, ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)  # KIP-516
    partition_data: list[PartitionProduceData] = array()


@message(key=0, versions=(3, 13), flexible=9)
class ProduceRequest(Message):
    """Record batches for several partitions; each is taken or refused by itself."""

    transactional_id: NullableString = None
    acks: Int16 = 0  # -1: when all in-sync replicas have it
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = array()


@struct
class BatchIndexAndErrorMessage(Struct):
    """A record that made the broker refuse its batch (KIP-467)."""

    batch_index: Int32 = 0
    batch_index_error_message: NullableString = None


@struct
class PartitionProduceResponse(Struct):
    """Where a partition's batches went, or why nowhere."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1  # -1 unless the topic's timestamps are the broker's
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = since(8, ignorable=True)
    error_message: NullableString = since(8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = since(10, tag=0, ignorable=True)  # KIP-951


@struct
class TopicProduceResponse(Struct):
    """What became of one topic's batches."""

    name: String = since(0, until=12, ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array()


@message(key=0, versions=(3, 13), flexible=9)
class ProduceResponse(Message):
    """Not sent at all when the request's acks is 0."""

    responses: list[TopicProduceResponse] = array()
    throttle_time_ms: Int32 = 0
    node_endpoints: list[NodeEndpoint] = since(10, tag=0, ignorable=True)
