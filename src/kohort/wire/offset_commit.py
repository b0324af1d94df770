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
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(6, default=-1, ignorable=True)
    committed_metadata: NullableString = ""


@struct
class OffsetCommitRequestTopic(Struct):
    name: String = since(0, until=9, ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array()


@message(key=8, versions=(2, 10), flexible=8)
class OffsetCommitRequest(Message):
    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: NullableString = since(7, default=None)
    retention_time_ms: Int64 = since(0, until=4, default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array()


@struct
class OffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic(Struct):
    name: String = since(0, until=9, ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array()


@message(key=8, versions=(2, 10), flexible=8)
class OffsetCommitResponse(Message):
    throttle_time_ms: Int32 = since(3, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array()
