"""ListOffsets: the ends of a partition, or the first record at or after a time."""

from collections import Counter
from collections.abc import Set
from typing import TYPE_CHECKING

from kohort.broker.call import Call
from kohort.errors import ErrorCode
from kohort.log import CorruptBatch
from kohort.log.api import OffsetAndTime, PartitionLog
from kohort.wire.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from kohort.broker.server import Broker

_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _LATEST_TIERED = -1, -2, -3, -4, -5
_LEADER_EPOCHS_FROM = 4
_SINCE = {_MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9}
"""The version from which each special timestamp means something."""


def handle(broker: "Broker", call: Call, request: ListOffsetsRequest) -> None:
    """Every record here is committed, so both isolation levels see the same end."""
    named = Counter((topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions)
    twice = {place for place, times in named.items() if times > 1}
    topics = [
        ListOffsetsTopicResponse(name=topic.name, partitions=_look_up_all(broker, topic, call.version, twice))
        for topic in request.topics
    ]
    call.reply(ListOffsetsResponse(topics=topics))


def _look_up_all(
    broker: "Broker", topic: ListOffsetsTopic, version: int, twice: Set[tuple[str, int]]
) -> list[ListOffsetsPartitionResponse]:
    """A partition that is named twice is refused, once."""
    return [
        _failed(index, ErrorCode.INVALID_REQUEST)
        if (topic.name, index) in twice
        else _look_up(broker, topic.name, wanted, version)
        for index, wanted in {wanted.partition_index: wanted for wanted in topic.partitions}.items()
    ]


def _look_up(broker: "Broker", name: str, wanted: ListOffsetsPartition, version: int) -> ListOffsetsPartitionResponse:
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
        found = _find(log, wanted.timestamp)
    except OSError as error:
        broker.disk_troubles.note(f"look up offsets of {name}-{index}", error)
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


def _find(log: PartitionLog, timestamp: int) -> OffsetAndTime | None:
    match timestamp:
        case -1:
            return OffsetAndTime(log.stable_offset, -1, log.leader_epoch)
        case -2 | -4:
            return OffsetAndTime(log.start_offset, -1, log.leader_epoch)
        case -3:
            return log.find_max_time()
        case -5:
            return None  # nothing is ever tiered
        case _:
            return log.find_time(timestamp)


def _failed(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=index, error_code=code, offset=-1, timestamp=-1, leader_epoch=-1
    )
