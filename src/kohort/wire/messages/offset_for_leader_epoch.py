"""OffsetForLeaderEpoch: find the end offsets of leader epochs, to detect log truncation (KIP-320)."""

from kohort.wire.codec import Int16, Int32, Int64, Message, String, Struct, array, message, since, struct


@struct
class OffsetForLeaderPartition(Struct):
    """A leader epoch of one partition."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


@struct
class OffsetForLeaderTopic(Struct):
    """Leader epochs of one topic's partitions."""

    topic: String = ""
    partitions: list[OffsetForLeaderPartition] = array()


@message(key=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochRequest(Message):
    """Find the end offsets of leader epochs."""

    replica_id: Int32 = since(3, default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array()


@struct
class EpochEndOffset(Struct):
    """End offset of a leader epoch."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult(Struct):
    """End offsets of leader epochs of one topic."""

    topic: String = ""
    partitions: list[EpochEndOffset] = array()


@message(key=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochResponse(Message):
    """End offset of each leader epoch."""

    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult] = array()
