"""DeleteRecords: partitions forget what lies before an offset (KIP-107)."""

import asyncio
from typing import TYPE_CHECKING

from kohort.broker.call import Call
from kohort.broker.setting import split_list
from kohort.broker.topic_config import topic_text
from kohort.broker.topics import INTERNAL_TOPICS
from kohort.errors import ErrorCode, KafkaError
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
    """Each partition succeeds or fails on its own; the new start is on disk when the answer leaves.

    One partition at a time, for each waits for its disk: other requests, heartbeats above all, pass between them. Where
    the peer goes away, so does the rest of its request.
    """
    wanted = {(topic.name, one.partition_index): one for topic in request.topics for one in topic.partitions}
    topics = {topic.name: DeleteRecordsTopicResult(name=topic.name) for topic in request.topics}
    todo = iter(wanted.items())  # what is named twice is deleted and answered once, as in Kafka
    loop = asyncio.get_running_loop()

    def go_on() -> None:
        if not call.open:
            return
        following = next(todo, None)
        if following is None:
            broker.writer.current()  # it deletes the files, in its own time
            call.reply(DeleteRecordsResponse(topics=list(topics.values())))
            return
        (name, _), one = following
        topics[name].partitions.append(_delete(broker, name, one))
        loop.call_soon(go_on)

    go_on()


def _delete(broker: "Broker", name: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        start = _move_start(broker, name, wanted)
    except KafkaError as error:
        code, start = error.code, _NOWHERE
    except OSError as error:
        broker.disk_troubles.note(f"delete records of {name}-{wanted.partition_index}", error)
        code, start = ErrorCode.KAFKA_STORAGE_ERROR, _NOWHERE
    else:
        code = ErrorCode.NONE
    return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=start, error_code=code)


def _move_start(broker: "Broker", name: str, wanted: DeleteRecordsPartition) -> int:
    if name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    topic = broker.topics.named(name)
    log = None if topic is None else broker.topics.log(topic, wanted.partition_index)
    if topic is None or log is None:
        raise KafkaError(broker.no_log(topic, wanted.partition_index))
    policies = split_list(topic_text("cleanup.policy", topic.configs, broker.live_config))
    if "compact" in policies and "delete" not in policies:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)  # a compacted topic is a table: its head is no history
    offset = log.stable_offset if wanted.offset == _TO_THE_END else wanted.offset
    if not 0 <= offset <= log.stable_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    start = log.delete_before(offset)
    broker.parked_fetches.moved((log,))
    return start
