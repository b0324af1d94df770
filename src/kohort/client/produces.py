"""Produce requests from batches, and their answers as values."""

from collections.abc import Iterable
from dataclasses import dataclass

from kohort.client.batches import NO_OFFSET, PartitionQueue
from kohort.client.metadata import ClusterMetadata
from kohort.client.options import ProducerOptions
from kohort.errors import ErrorCode, error_code
from kohort.model import Millis, TopicPartition
from kohort.wire.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kohort.wire.records import Codec


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one partition's batch."""

    code: ErrorCode
    detail: str = ""
    base_offset: int = NO_OFFSET
    log_append_time: Millis | None = None


LEFT_OUT = Outcome(ErrorCode.UNKNOWN_TOPIC_ID, "the answer leaves it out")


def produce_request(
    queues: Iterable[PartitionQueue], metadata: ClusterMetadata, options: ProducerOptions, acks: int, codec: Codec
) -> ProduceRequest:
    """What carries the batch that each queue has under way."""
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


def outcomes_of(answer: ProduceResponse, metadata: ClusterMetadata) -> dict[TopicPartition, Outcome]:
    """Of every partition that the answer names."""
    found = {}
    for topic in answer.responses:
        name = topic.name or metadata.names.get(topic.topic_id, "")
        for one in topic.partition_responses:
            code = error_code(one.error_code)
            appended = None if one.log_append_time_ms < 0 else one.log_append_time_ms
            found[TopicPartition(name, one.index)] = Outcome(
                code, one.error_message or code.sentence, one.base_offset, appended
            )
    return found
