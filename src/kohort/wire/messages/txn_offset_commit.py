"""TxnOffsetCommit: commit offsets of a group as part of a transaction (KIP-98, KIP-447)."""

from kohort.wire.codec import (
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    since,
    struct,
)


@struct
class TxnOffsetCommitRequestPartition(Struct):
    """Offset to commit, which is the next to read, with metadata of the application."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(2, default=-1, ignorable=True)  # KIP-320
    committed_metadata: NullableString = ""


@struct
class TxnOffsetCommitRequestTopic(Struct):
    """Offsets of one topic."""

    name: String = ""
    partitions: list[TxnOffsetCommitRequestPartition] = array()


@message(key=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitRequest(Message):
    """Commit offsets that become visible if the transaction commits.

    Version 5 is for producers with transaction.version 2, which do not send AddOffsetsToTxn before.
    """

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Int32 = since(3, default=-1)  # KIP-447: fences members of old generations
    member_id: String = since(3)
    group_instance_id: NullableString = since(3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array()


@struct
class TxnOffsetCommitResponsePartition(Struct):
    """Result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic(Struct):
    """Results for one topic's partitions."""

    name: String = ""
    partitions: list[TxnOffsetCommitResponsePartition] = array()


@message(key=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitResponse(Message):
    """Result for each partition."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = array()
