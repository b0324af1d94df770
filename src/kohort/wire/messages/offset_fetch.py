"""OffsetFetch: fetch the committed offsets of groups."""

from kohort.wire.codec import (
    Bool,
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
class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic, before version 8."""

    name: String = ""
    partition_indexes: list[Int32] = array()


@struct
class OffsetFetchRequestTopics(Struct):
    """Partitions of one topic, from version 8."""

    name: String = since(0, until=9, ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)  # KIP-848
    partition_indexes: list[Int32] = array()


@struct
class OffsetFetchRequestGroup(Struct):
    """Requested offsets of one group; null topics mean all committed offsets."""

    group_id: String = ""
    member_id: NullableString = since(9, default=None, ignorable=True)
    member_epoch: Int32 = since(9, default=-1, ignorable=True)  # KIP-848
    topics: list[OffsetFetchRequestTopics] | None = array()


@message(key=9, versions=(1, 10), flexible=6)
class OffsetFetchRequest(Message):
    """Fetch the offsets of one group or, from version 8, of several groups (KIP-709)."""

    group_id: String = since(0, until=7)
    topics: list[OffsetFetchRequestTopic] | None = since(0, until=7, nullable=2)
    groups: list[OffsetFetchRequestGroup] = since(8)
    require_stable: Bool = since(7)  # KIP-447: reject offsets that a transaction may still change


@struct
class OffsetFetchResponsePartition(Struct):
    """Committed offset, which is the next to read, or -1; before version 8."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(5, default=-1, ignorable=True)  # KIP-320
    metadata: NullableString = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopic(Struct):
    """Offsets of one topic, before version 8."""

    name: String = ""
    partitions: list[OffsetFetchResponsePartition] = array()


@struct
class OffsetFetchResponsePartitions(Struct):
    """Committed offset, which is the next to read, or -1; from version 8."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: NullableString = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopics(Struct):
    """Offsets of one topic, from version 8."""

    name: String = since(0, until=9, ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array()


@struct
class OffsetFetchResponseGroup(Struct):
    """Offsets of one group."""

    group_id: String = ""
    topics: list[OffsetFetchResponseTopics] = array()
    error_code: Int16 = 0


@message(key=9, versions=(1, 10), flexible=6)
class OffsetFetchResponse(Message):
    """Offsets of groups. Before version 8, the fields for one group are used, else `groups`."""

    throttle_time_ms: Int32 = since(3, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = since(0, until=7)
    error_code: Int16 = since(2, until=7, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = since(8)
