"""Requests of a transactional producer (KIP-98), and the error codes of their responses."""

from collections.abc import Iterable, Mapping

from kohort.errors import ErrorCode, error_code
from kohort.model import Millis, TopicPartition
from kohort.requests.producers import ProducerId
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kohort.wire.messages.end_txn import EndTxnRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.txn_offset_commit import TxnOffsetCommitResponse


def transactional_id_request(
    transactional_id: str, timeout_ms: Millis, current: ProducerId | None
) -> InitProducerIdRequest:
    """Return a request for the next epoch. `current` is the producer's own pair, if it has one (KIP-360)."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    if current is not None:
        request.producer_id, request.producer_epoch = current
    return request


def add_partitions_request(
    transactional_id: str, producer: ProducerId, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Return a request that adds partitions to the transaction. Versions above 3 are for brokers."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, number in partitions:
        topics.setdefault(name, AddPartitionsToTxnTopic(name=name, partitions=[])).partitions.append(number)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=list(topics.values()),
    )


def added_partitions(response: AddPartitionsToTxnResponse) -> Mapping[TopicPartition, ErrorCode]:
    """Return the error code of each partition."""
    return {
        TopicPartition(topic.name, entry.partition_index): error_code(entry.partition_error_code)
        for topic in response.results_by_topic_v3_and_below
        for entry in topic.results_by_partition
    }


def add_offsets_request(transactional_id: str, producer: ProducerId, group_id: str) -> AddOffsetsToTxnRequest:
    """Return a request that adds a group's offsets to the transaction."""
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        group_id=group_id,
    )


def committed_in_transaction(response: TxnOffsetCommitResponse) -> Mapping[TopicPartition, ErrorCode]:
    """Return the error code of each partition."""
    return {
        TopicPartition(topic.name, entry.partition_index): error_code(entry.error_code)
        for topic in response.topics
        for entry in topic.partitions
    }


def end_request(transactional_id: str, producer: ProducerId, *, commit: bool) -> EndTxnRequest:
    """Return a request that commits or aborts the transaction."""
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        committed=commit,
    )
