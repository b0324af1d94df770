"""Idempotent producers: their IDs (KIP-98), and those that a partition knows (KIP-664)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kohort.errors import ErrorCode, KafkaError
from kohort.model import Millis, TopicPartition
from kohort.requests.errors import PartitionResults, check, error_of
from kohort.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_MAY_NOT_WRITE = (
    "this client may write to no topic: its operator must allow the operation write on the topic, or"
    " idempotent-write on the cluster (an ACL)"
)


class ProducerId(NamedTuple):
    """Producer ID and epoch (KIP-98). With a sequence number, they let the broker discard duplicates."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """Idempotent producer of a partition, with its last batch (KIP-664)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: Millis | None
    transaction_start: int | None
    """First offset of its open transaction; None if there is none."""
    coordinator_epoch: int | None = None
    """Epoch of the coordinator that ended its last transaction; None if there was none."""


def producer_id_request() -> InitProducerIdRequest:
    """Return a request for a new producer ID without transactions."""
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)


def read_producer_id(response: InitProducerIdResponse) -> ProducerId:
    """Return the new producer ID. Raises KafkaError."""
    refused = response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    check(response.error_code, message=_MAY_NOT_WRITE if refused else None)
    return ProducerId(response.producer_id, response.producer_epoch)


def describe_producers_request(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
    """Return a request for the active producers of these partitions."""
    topics: dict[str, TopicRequest] = {}
    for name, number in partitions:
        topics.setdefault(name, TopicRequest(name=name, partition_indexes=[])).partition_indexes.append(number)
    return DescribeProducersRequest(topics=list(topics.values()))


def read_producers(response: DescribeProducersResponse) -> PartitionResults[list[ActiveProducer]]:
    """Return the active producers of each partition."""
    found: dict[TopicPartition, list[ActiveProducer]] = {}
    refused: dict[TopicPartition, KafkaError] = {}
    for topic in response.topics:
        for entry in topic.partitions:
            partition = TopicPartition(topic.name, entry.partition_index)
            error = error_of(entry.error_code, str(partition), entry.error_message)
            if error is not None:
                refused[partition] = error
            else:
                found[partition] = _producers(entry)
    return found, refused


def _producers(answered: PartitionResponse) -> list[ActiveProducer]:
    return [
        ActiveProducer(
            producer.producer_id,
            producer.producer_epoch,
            producer.last_sequence,
            None if producer.last_timestamp < 0 else producer.last_timestamp,
            None if producer.current_txn_start_offset < 0 else producer.current_txn_start_offset,
            None if producer.coordinator_epoch < 0 else producer.coordinator_epoch,
        )
        for producer in answered.active_producers
    ]
