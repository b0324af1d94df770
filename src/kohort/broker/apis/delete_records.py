"""DeleteRecords: partitions forget what lies before an offset (KIP-107)."""

from typing import TYPE_CHECKING

from kohort.broker.call import Call
from kohort.broker.topic_config import topic_text
from kohort.broker.topics import INTERNAL_TOPICS
from kohort.errors import ErrorCode
from kohort.wire.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from kohort.broker.server import Broker

_TO_THE_END = -1
_NOWHERE = -1


def handle(broker: "Broker", call: Call, request: DeleteRecordsRequest) -> None:
    """Each partition succeeds or fails on its own; the new start is on disk when the answer leaves."""
    wanted: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:  # what is named twice is deleted and answered once, as in Kafka
        wanted.setdefault(topic.name, {}).update((one.partition_index, one) for one in topic.partitions)
    topics = [
        DeleteRecordsTopicResult(name=name, partitions=[_delete(broker, name, one) for one in partitions.values()])
        for name, partitions in wanted.items()
    ]
    broker.writer.current()  # it deletes the files, in its own time
    call.reply(DeleteRecordsResponse(topics=topics))


def _delete(broker: "Broker", name: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    topic = broker.topics.named(name)
    log = None if topic is None else broker.topics.log(topic, wanted.partition_index)
    if name in INTERNAL_TOPICS:
        return _refused(wanted, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if topic is None or log is None:
        return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if "delete" not in topic_text("cleanup.policy", topic.configs, broker.live_config):
        return _refused(wanted, ErrorCode.POLICY_VIOLATION)  # a compacted topic is a table: its head is no history
    offset = log.stable_offset if wanted.offset == _TO_THE_END else wanted.offset
    if not 0 <= offset <= log.stable_offset:
        return _refused(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        start = log.delete_before(offset)
    except OSError:
        return _refused(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=start)


def _refused(wanted: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=_NOWHERE, error_code=code)
