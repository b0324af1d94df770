"""ListOffsets: the ends of a partition, or the first record at or after a timestamp."""

from collections import Counter
from collections.abc import Set
from typing import Protocol

from kohort.broker.logs import DiskErrors, Topics
from kohort.broker.net import Call
from kohort.errors import ErrorCode
from kohort.log import CorruptBatch, OffsetAndTime, PartitionLog, Topic
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    disk_errors: DiskErrors
    topics: Topics

    def no_log(self, topic: Topic | None, partition: int) -> ErrorCode: ...

    def partition(self, topic: str, partition: int) -> PartitionLog | None: ...


_READ_COMMITTED = 1
_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _LATEST_TIERED = -1, -2, -3, -4, -5
_LEADER_EPOCHS_FROM = 4
_SINCE = {_MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9}
"""First version in which each special timestamp is valid."""


def handle(broker: Dependencies, call: Call, request: ListOffsetsRequest) -> None:
    """Look up each partition; with read_committed, its end is the last stable offset."""
    named = Counter((topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions)
    twice = {place for place, times in named.items() if times > 1}
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=_look_up_all(
                broker, topic, call.version, twice, committed_only=request.isolation_level == _READ_COMMITTED
            ),
        )
        for topic in request.topics
    ]
    call.reply(ListOffsetsResponse(topics=topics))


def _look_up_all(
    broker: Dependencies, topic: ListOffsetsTopic, version: int, twice: Set[tuple[str, int]], *, committed_only: bool
) -> list[ListOffsetsPartitionResponse]:
    """Look up the partitions of a topic; a partition that is named twice is rejected, once."""
    return [
        _failed(index, ErrorCode.INVALID_REQUEST)
        if (topic.name, index) in twice
        else _look_up(broker, topic.name, wanted, version, committed_only=committed_only)
        for index, wanted in {wanted.partition_index: wanted for wanted in topic.partitions}.items()
    ]


def _look_up(
    broker: Dependencies, name: str, wanted: ListOffsetsPartition, version: int, *, committed_only: bool
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    if version < _SINCE.get(wanted.timestamp, 0) or wanted.timestamp < _LATEST_TIERED:
        return _failed(index, ErrorCode.UNSUPPORTED_VERSION)
    log = broker.partition(name, index)
    if log is None:
        return _failed(index, broker.no_log(broker.topics.named(name), index))
    if 0 <= wanted.current_leader_epoch < log.leader_epoch:
        return _failed(index, ErrorCode.FENCED_LEADER_EPOCH)
    if wanted.current_leader_epoch > log.leader_epoch:
        return _failed(index, ErrorCode.UNKNOWN_LEADER_EPOCH)
    try:
        found = _find(log, wanted.timestamp, committed_only=committed_only)
    except OSError as error:
        broker.disk_errors.note(f"look up offsets of {name}-{index}", error)
        is_damaged = isinstance(error, CorruptBatch)
        return _failed(index, ErrorCode.CORRUPT_MESSAGE if is_damaged else ErrorCode.KAFKA_STORAGE_ERROR)
    if found is None:
        return _failed(index, ErrorCode.NONE)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        offset=found.offset,
        timestamp=found.timestamp,
        leader_epoch=found.leader_epoch if version >= _LEADER_EPOCHS_FROM else -1,
    )


def _find(log: PartitionLog, timestamp: int, *, committed_only: bool) -> OffsetAndTime | None:
    end = log.last_stable_offset if committed_only else log.stable_offset
    match timestamp:
        case -1:
            return OffsetAndTime(end, -1, log.leader_epoch)
        case -2 | -4:
            return OffsetAndTime(log.start_offset, -1, log.leader_epoch)
        case -3:
            found = log.find_max_time()
        case -5:
            return None  # there is no tiered storage
        case _:
            found = log.find_time(timestamp)
    return None if found is None or found.offset >= end else found


def _failed(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=index, error_code=code, offset=-1, timestamp=-1, leader_epoch=-1
    )
