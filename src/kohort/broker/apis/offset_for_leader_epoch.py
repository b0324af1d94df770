"""OffsetForLeaderEpoch: where a leader's time ended, so that a client notices records that were lost (KIP-320)."""

from typing import TYPE_CHECKING

from kohort.broker.call import Call
from kohort.errors import ErrorCode
from kohort.log.api import PartitionLog
from kohort.wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kohort.wire.records import read_header

if TYPE_CHECKING:
    from kohort.broker.server import Broker

_UNKNOWN = -1


def handle(broker: "Broker", call: Call, request: OffsetForLeaderEpochRequest) -> None:
    """Each partition on its own."""
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic, partitions=[_look_up(broker, topic.topic, wanted) for wanted in topic.partitions]
        )
        for topic in request.topics
    ]
    call.reply(OffsetForLeaderEpochResponse(topics=topics))


def _look_up(broker: "Broker", name: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    log = broker.partition(name, wanted.partition)
    if log is None:
        return EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if 0 <= wanted.current_leader_epoch < log.leader_epoch:
        return EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.FENCED_LEADER_EPOCH)
    if wanted.current_leader_epoch > log.leader_epoch:
        return EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
    try:
        epoch, end = _end_of(log, wanted.leader_epoch)
    except OSError:
        return EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end)


def _end_of(log: PartitionLog, epoch: int) -> tuple[int, int]:
    """The last epoch up to `epoch` that has records, and where the next one begins."""
    if epoch == _UNKNOWN or epoch > log.leader_epoch:
        return _UNKNOWN, _UNKNOWN
    if epoch == log.leader_epoch:
        return epoch, log.stable_offset
    end = _first_after(log, epoch)
    return (epoch if end == log.start_offset else _epoch_at(log, end - 1)), end


def _first_after(log: PartitionLog, epoch: int) -> int:
    """The first offset of an epoch later than `epoch`: epochs only rise along a log, so it can be bisected."""
    low, high = log.start_offset, log.stable_offset
    while low < high:
        middle = (low + high) // 2
        if _epoch_at(log, middle) > epoch:
            high = middle
        else:
            low = middle + 1
    return low


def _epoch_at(log: PartitionLog, offset: int) -> int:
    return read_header(log.read(offset, 1)[0]).leader_epoch
