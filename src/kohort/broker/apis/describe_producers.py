"""DescribeProducers: the idempotent producers that a partition remembers (KIP-664)."""

from typing import Protocol

from kohort.broker.logs import Topics, is_legal_name
from kohort.broker.net import Call
from kohort.errors import ErrorCode
from kohort.log import PartitionLog, Producer, Topic
from kohort.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    topics: Topics

    def no_log(self, topic: Topic | None, partition: int) -> ErrorCode: ...

    def partition(self, topic: str, partition: int) -> PartitionLog | None: ...


_NONE = -1


def handle(broker: Dependencies, call: Call, request: DescribeProducersRequest) -> None:
    """Describe each partition, independently of the others."""
    topics = [
        TopicResponse(
            name=topic.name, partitions=[_describe(broker, topic.name, index) for index in topic.partition_indexes]
        )
        for topic in request.topics
    ]
    call.reply(DescribeProducersResponse(topics=topics))


def _describe(broker: Dependencies, name: str, index: int) -> PartitionResponse:
    log = broker.partition(name, index)
    if log is None:
        why = broker.no_log(broker.topics.named(name), index)
        code = why if is_legal_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
        return PartitionResponse(partition_index=index, error_code=code, error_message=code.sentence)
    producers = [_state(number, producer) for number, producer in log.producers.snapshot().items()]
    return PartitionResponse(partition_index=index, active_producers=producers)


def _state(producer_id: int, producer: Producer) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.batches[-1].last_sequence if producer.batches else _NONE,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=_NONE if producer.coordinator_epoch is None else producer.coordinator_epoch,
        current_txn_start_offset=_NONE if producer.transaction_start is None else producer.transaction_start,
    )
