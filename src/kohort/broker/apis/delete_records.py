"""DeleteRecords: delete the records before an offset (KIP-107)."""

import asyncio
from typing import Protocol

from kohort.broker.fetch import WaitingFetches
from kohort.broker.logs import INTERNAL_TOPICS, DiskErrors, TopicRules, Topics, Writer
from kohort.broker.net import Call
from kohort.errors import ErrorCode, KafkaError
from kohort.log import Topic
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    disk_errors: DiskErrors
    rules: TopicRules
    waiting_fetches: WaitingFetches
    topics: Topics
    writer: Writer

    def no_log(self, topic: Topic | None, partition: int) -> ErrorCode: ...


_TO_THE_END = -1
_NOWHERE = -1


def handle(broker: Dependencies, call: Call, request: DeleteRecordsRequest) -> None:
    """Delete records of each partition, independently; the new start is on disk when the answer is sent.

    Partitions are handled one at a time, because each waits for its disk: other requests, above all heartbeats, are
    handled in between. If the peer closes the connection, the rest of its request is dropped.
    """
    wanted = {
        (topic.name, wanted_partition.partition_index): wanted_partition
        for topic in request.topics
        for wanted_partition in topic.partitions
    }
    topics = {topic.name: DeleteRecordsTopicResult(name=topic.name) for topic in request.topics}
    todo = iter(wanted.items())  # a partition that is named twice is handled and answered once, as in Kafka
    loop = asyncio.get_running_loop()

    def delete_next() -> None:
        if not call.open:
            return
        following = next(todo, None)
        if following is None:
            broker.writer.current()  # the writer deletes the files later
            call.reply(DeleteRecordsResponse(topics=list(topics.values())))
            return
        (name, _), wanted_partition = following
        topics[name].partitions.append(_delete(broker, name, wanted_partition))
        loop.call_soon(delete_next)

    delete_next()


def _delete(broker: Dependencies, name: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        start = _move_start(broker, name, wanted)
    except KafkaError as error:
        code, start = error.code, _NOWHERE
    except OSError as error:
        broker.disk_errors.note(f"delete records of {name}-{wanted.partition_index}", error)
        code, start = ErrorCode.KAFKA_STORAGE_ERROR, _NOWHERE
    else:
        code = ErrorCode.NONE
    return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=start, error_code=code)


def _move_start(broker: Dependencies, name: str, wanted: DeleteRecordsPartition) -> int:
    if name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    topic = broker.topics.named(name)
    log = None if topic is None else broker.topics.log(topic, wanted.partition_index)
    if topic is None or log is None:
        raise KafkaError(broker.no_log(topic, wanted.partition_index))
    if broker.rules.only_compacts(topic):
        raise KafkaError(ErrorCode.POLICY_VIOLATION)  # a compacted topic is a table: its oldest records may be current
    offset = log.stable_offset if wanted.offset == _TO_THE_END else wanted.offset
    if not 0 <= offset <= log.stable_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    start = log.delete_before(offset)
    broker.waiting_fetches.moved((log,))
    return start
