"""Fetch: read record batches, in sessions in which requests list only changes (KIP-227)."""

from kohort.wire.codec import (
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    RecordParts,
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
class ReplicaState(Struct):
    """Identity of a follower that fetches (KIP-903)."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchPartition(Struct):
    """Fetch offset and maximum size for one partition."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = since(9, default=-1, ignorable=True)  # KIP-320
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = since(12, default=-1)
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    partition_max_bytes: Int32 = 0  # KIP-74
    replica_directory_id: Uuid = since(17, ignorable=True, tag=0)  # KIP-853
    high_watermark: Int64 = since(18, default=0x7FFF_FFFF_FFFF_FFFF, ignorable=True, tag=1)  # KIP-1166


@struct
class FetchTopic(Struct):
    """Requested partitions of one topic."""

    topic: String = since(0, until=12, ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)  # KIP-516
    partitions: list[FetchPartition] = array()


@struct
class ForgottenTopic(Struct):
    """Partitions to remove from the fetch session."""

    topic: String = since(0, until=12, ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)
    partitions: list[Int32] = array()


@message(key=1, versions=(4, 18), flexible=12)
class FetchRequest(Message):
    """Fetch records of several partitions; wait for at least `min_bytes`, but at most `max_wait_ms`."""

    cluster_id: NullableString = since(12, default=None, ignorable=True, tag=0)
    replica_id: Int32 = since(0, until=14, default=-1)
    replica_state: ReplicaState | None = since(15, tag=1)  # KIP-903
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFF_FFFF  # KIP-74
    isolation_level: Int8 = 0  # 1: committed transactions only
    session_id: Int32 = since(7, ignorable=True)  # KIP-227
    session_epoch: Int32 = since(7, default=-1, ignorable=True)
    topics: list[FetchTopic] = array()
    forgotten_topics_data: list[ForgottenTopic] = since(7)
    rack_id: String = since(11, default="", ignorable=True)  # KIP-392


@struct
class EpochEndOffset(Struct):
    """End offset of a leader epoch."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class SnapshotId(Struct):
    """A snapshot of the metadata log."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction(Struct):
    """An aborted transaction, whose records the consumer must skip."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0


@struct
class PartitionData(Struct):
    """Fetched data of a partition. Within a session, only partitions with changes are included."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = since(12, tag=0)
    current_leader: LeaderIdAndEpoch | None = since(12, tag=1, ignorable=True)  # KIP-951
    snapshot_id: SnapshotId | None = since(12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array()
    preferred_read_replica: Int32 = since(11, default=-1)  # KIP-392
    records: RecordParts = None


@struct
class FetchableTopicResponse(Struct):
    """Fetched data of one topic's partitions."""

    topic: String = since(0, until=12, ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)
    partitions: list[PartitionData] = array()


@message(key=1, versions=(4, 18), flexible=12)
class FetchResponse(Message):
    """Fetched data: whole batches.

    The first batch of a partition may start before the requested offset and exceed every size limit
    (KIP-74).
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(7, ignorable=True)
    session_id: Int32 = since(7)
    responses: list[FetchableTopicResponse] = array()
    node_endpoints: list[NodeEndpoint] = since(16, tag=0, ignorable=True)
