"""Produce: requests made from encoded batches, and their responses as values."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kohort.errors import ErrorCode, error_code
from kohort.model import NO_TOPIC_ID, UUID, Millis, TopicPartition
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData


@dataclass(frozen=True, slots=True)
class ProduceOutcome:
    """Result of one partition's batch. The offset is -1 if unknown."""

    code: ErrorCode
    detail: str = ""
    base_offset: int = -1
    log_append_time: Millis | None = None


def produce_request(
    batches: Iterable[tuple[TopicPartition, bytes | bytearray | memoryview]],
    *,
    acks: int,
    timeout_ms: Millis,
    topic_id: Callable[[str], UUID] = lambda name: NO_TOPIC_ID,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Return a request with these batches, at most one per partition."""
    topics: dict[str, TopicProduceData] = {}
    for (name, number), records in batches:
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = TopicProduceData(name=name, topic_id=topic_id(name), partition_data=[])
        topic.partition_data.append(PartitionProduceData(index=number, records=records))
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values())
    )


def read_outcomes(
    response: ProduceResponse, names: Mapping[UUID, str] | None = None
) -> dict[TopicPartition, ProduceOutcome]:
    """Return the outcome of every partition in the response. `names` are those of topic IDs."""
    outcomes = {}
    for topic in response.responses:
        name = topic.name or (names or {}).get(topic.topic_id, "")
        for entry in topic.partition_responses:
            code = error_code(entry.error_code)
            appended = None if entry.log_append_time_ms < 0 else entry.log_append_time_ms
            outcomes[TopicPartition(name, entry.index)] = ProduceOutcome(
                code, entry.error_message or code.sentence, entry.base_offset, appended
            )
    return outcomes
