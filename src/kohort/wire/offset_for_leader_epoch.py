"""OffsetForLeaderEpoch: where an epoch ended, to notice a truncated log (KIP-320)."""

from kohort.wire.codec import Int16, Int32, Int64, Message, String, Struct, array, message, since, struct


@struct
class OffsetForLeaderPartition(Struct):
    """An epoch of one partition."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


@struct
class OffsetForLeaderTopic(Struct):
    """Epochs of one topic."""

    topic: String = ""
    partitions: list[OffsetForLeaderPartition] = array()


@message(key=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochRequest(Message):
    """Ask where epochs ended."""

    replica_id: Int32 = since(3, default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array()


@struct
class EpochEndOffset(Struct):
    """Where an epoch ended."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult(Struct):
    """Where epochs of one topic ended."""

    topic: String = ""
    partitions: list[EpochEndOffset] = array()


@message(key=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochResponse(Message):
    """Where the epochs ended."""

    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult] = array()
