"""OffsetCommit: store how far a group has come."""

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
    """The next offset to read, with a note of the application's."""

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
    """Store offsets, as a member or, with generation -1 and no member id, from outside a group without members."""

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: NullableString = since(7, default=None)  # KIP-345
    retention_time_ms: Int64 = since(0, until=4, default=-1, ignorable=True)  # KIP-211 removed it
    topics: list[OffsetCommitRequestTopic] = array()


@struct
class OffsetCommitResponsePartition(Struct):
    """Whether one partition's offset was stored."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic(Struct):
    """Whether one topic's offsets were stored."""

    name: String = since(0, until=9, ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array()


@message(key=8, versions=(2, 10), flexible=8)
class OffsetCommitResponse(Message):
    """Whether the offsets were stored."""

    throttle_time_ms: Int32 = since(3, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array()
