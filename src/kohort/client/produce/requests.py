"""Produce requests made from batches, and their responses as values."""

from collections.abc import Iterable
from dataclasses import dataclass

from kohort.client.net.metadata import ClusterMetadata
from kohort.client.options import ProducerOptions
from kohort.client.produce.batches import NO_OFFSET, PartitionQueue
from kohort.errors import ErrorCode, error_code
from kohort.model import Millis, TopicPartition
from kohort.wire.batches.records import Codec
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData


@dataclass(frozen=True, slots=True)
class ProduceOutcome:
    """Result of one partition's batch."""

    code: ErrorCode
    detail: str = ""
    base_offset: int = NO_OFFSET
    log_append_time: Millis | None = None


LEFT_OUT = ProduceOutcome(ErrorCode.UNKNOWN_TOPIC_ID, "the answer lacks it")


def produce_request(
    queues: Iterable[PartitionQueue], metadata: ClusterMetadata, options: ProducerOptions, acks: int, codec: Codec
) -> ProduceRequest:
    """Return a request with the in-flight batch of each queue."""
    topics: dict[str, TopicProduceData] = {}
    for queue in queues:
        assert queue.in_flight is not None
        name, number = queue.partition
        topic = topics.get(name)
        if topic is None:
            topic_id = metadata.topics[name].topic_id
            topic = topics[name] = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
        records = queue.in_flight.encoded(codec)
        topic.partition_data.append(PartitionProduceData(index=number, records=records))
    return ProduceRequest(acks=acks, timeout_ms=options.request_timeout_ms, topic_data=list(topics.values()))


def outcomes_of(answer: ProduceResponse, metadata: ClusterMetadata) -> dict[TopicPartition, ProduceOutcome]:
    """Return the outcome of every partition in the response."""
    found = {}
    for topic in answer.responses:
        name = topic.name or metadata.names.get(topic.topic_id, "")
        for one in topic.partition_responses:
            code = error_code(one.error_code)
            appended = None if one.log_append_time_ms < 0 else one.log_append_time_ms
            found[TopicPartition(name, one.index)] = ProduceOutcome(
                code, one.error_message or code.sentence, one.base_offset, appended
            )
    return found
