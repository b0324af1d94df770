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
from kohort.wire.records import BatchHeader, read_header

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
        code = broker.no_log(broker.topics.named(name), wanted.partition)
        return EpochEndOffset(partition=wanted.partition, error_code=code)
    if 0 <= wanted.current_leader_epoch < log.leader_epoch:
        return EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.FENCED_LEADER_EPOCH)
    if wanted.current_leader_epoch > log.leader_epoch:
        return EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
    try:
        epoch, end = _end_of(log, wanted.leader_epoch)
    except OSError as error:
        broker.disk_troubles.note(f"look up epochs of {name}-{wanted.partition}", error)
        return EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end)


def _end_of(log: PartitionLog, epoch: int) -> tuple[int, int]:
    """The last epoch up to `epoch` that has records, and where the next one begins."""
    if epoch == _UNKNOWN or epoch > log.leader_epoch:
        return _UNKNOWN, _UNKNOWN
    if epoch == log.leader_epoch:
        return epoch, log.stable_offset
    after = _first_after(log, epoch)
    before = epoch if after == log.start_offset else _epoch_at(log, after - 1)
    return (epoch if before is None else before), _begin_of(log, after)


def _first_after(log: PartitionLog, epoch: int) -> int:
    """The first offset at which an epoch later than `epoch` is read: they only rise along a log, so it is bisected.

    In a gap that compaction left the batch behind it is read.
    """
    low, high = log.start_offset, log.stable_offset
    while low < high:
        middle = (low + high) // 2
        found = _epoch_at(log, middle)
        if found is not None and found > epoch:
            high = middle
        else:
            low = middle + 1
    return low


def _begin_of(log: PartitionLog, offset: int) -> int:
    """Where the batch that is read at `offset` begins: who stands in the gap before it has not read beyond an epoch."""
    header = _header_at(log, offset)
    return offset if header is None else max(offset, header.base_offset)


def _epoch_at(log: PartitionLog, offset: int) -> int | None:
    header = _header_at(log, offset)
    return None if header is None else header.leader_epoch


def _header_at(log: PartitionLog, offset: int) -> BatchHeader | None:
    """Of the batch that holds the offset, or the next one; None where none follows."""
    found = log.read(offset, 1) if offset < log.stable_offset else ()
    return read_header(found[0]) if found else None
