"""OffsetCommit: store the committed offsets of a group."""

from kohort.wire.codec import (
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Struct,
    Uuid,
    array,
    message,
    since,
    struct,
)


@struct
class OffsetCommitRequestPartition(Struct):
    """Offset to commit, which is the next to read, with metadata of the application."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(6, default=-1, ignorable=True)  # KIP-320
    committed_metadata: NullableString = ""


@struct
class OffsetCommitRequestTopic(Struct):
    """Offsets of one topic."""

    name: String = since(0, until=9, ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)  # KIP-848
    partitions: list[OffsetCommitRequestPartition] = array()


@message(key=8, versions=(2, 10), flexible=8)
class OffsetCommitRequest(Message):
    """Commit offsets as a member, or for a group without members with generation -1 and no member ID."""

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: NullableString = since(7, default=None)  # KIP-345
    retention_time_ms: Int64 = since(0, until=4, default=-1, ignorable=True)  # KIP-211 removed it
    topics: list[OffsetCommitRequestTopic] = array()


@struct
class OffsetCommitResponsePartition(Struct):
    """Result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic(Struct):
    """Results for one topic's partitions."""

    name: String = since(0, until=9, ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array()


@message(key=8, versions=(2, 10), flexible=8)
class OffsetCommitResponse(Message):
    """Result for each partition."""

    throttle_time_ms: Int32 = since(3, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array()
