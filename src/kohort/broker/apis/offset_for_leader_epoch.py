"""OffsetForLeaderEpoch: the end offset of a leader epoch, by which a client detects lost records (KIP-320)."""

from typing import Protocol

from kohort.broker.logs import DiskErrors, Topics
from kohort.broker.net import Call
from kohort.errors import ErrorCode
from kohort.log import PartitionLog, Topic
from kohort.wire.batches import BatchHeader, read_header
from kohort.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    disk_errors: DiskErrors
    topics: Topics

    def no_log(self, topic: Topic | None, partition: int) -> ErrorCode: ...

    def partition(self, topic: str, partition: int) -> PartitionLog | None: ...


_UNKNOWN = -1


def handle(broker: Dependencies, call: Call, request: OffsetForLeaderEpochRequest) -> None:
    """Look up each partition, independently of the others."""
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic, partitions=[_look_up(broker, topic.topic, wanted) for wanted in topic.partitions]
        )
        for topic in request.topics
    ]
    call.reply(OffsetForLeaderEpochResponse(topics=topics))


def _look_up(broker: Dependencies, name: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
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
        broker.disk_errors.note(f"look up epochs of {name}-{wanted.partition}", error)
        return EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end)


def _end_of(log: PartitionLog, epoch: int) -> tuple[int, int]:
    """Return the last epoch up to `epoch` that has records, and the offset at which the next one begins."""
    if epoch == _UNKNOWN or epoch > log.leader_epoch:
        return _UNKNOWN, _UNKNOWN
    if epoch == log.leader_epoch:
        return epoch, log.stable_offset
    after = _first_after(log, epoch)
    before = epoch if after == log.start_offset else _epoch_at(log, after - 1)
    return (epoch if before is None else before), _begin_of(log, after)


def _first_after(log: PartitionLog, epoch: int) -> int:
    """Return the first offset at which the log has an epoch later than `epoch`, found by bisection.

    Epochs never decrease along a log. At an offset in a gap that compaction left, the next batch is read.
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
    """Return the base offset of the batch that is read at `offset`, or `offset` if it is larger.

    A client in the gap before that batch has read nothing beyond the earlier epoch.
    """
    header = _header_at(log, offset)
    return offset if header is None else max(offset, header.base_offset)


def _epoch_at(log: PartitionLog, offset: int) -> int | None:
    header = _header_at(log, offset)
    return None if header is None else header.leader_epoch


def _header_at(log: PartitionLog, offset: int) -> BatchHeader | None:
    """Return the header of the batch that holds the offset, or of the next one; None if there is none."""
    found = log.read(offset, 1) if offset < log.stable_offset else ()
    return read_header(found[0]) if found else None
