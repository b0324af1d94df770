"""Active producers of partitions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kohort.client.net.checks import check
from kohort.client.net.cluster import Cluster
from kohort.client.net.connection import BrokerConnection
from kohort.client.net.leaders import Answer, ask_leaders
from kohort.errors import KafkaError
from kohort.model import Millis, TopicPartition
from kohort.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """Idempotent producer of a partition, with its last batch (KIP-664)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: Millis | None
    transaction_start: int | None
    """First offset of its open transaction; None if there is none."""


async def describe_producers(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, list[ActiveProducer]]:
    """Return the active producers of each partition. Raises KafkaError."""

    async def ask(connection: BrokerConnection, some: Mapping[TopicPartition, None]) -> Answer[list[ActiveProducer]]:
        topics: dict[str, TopicRequest] = {}
        for name, number in some:
            topics.setdefault(name, TopicRequest(name=name, partition_indexes=[])).partition_indexes.append(number)
        request = DescribeProducersRequest(topics=list(topics.values()))
        return _read(await connection.request(request, DescribeProducersResponse))

    return await ask_leaders(cluster, dict.fromkeys(partitions), ask)


def _read(response: DescribeProducersResponse) -> Answer[list[ActiveProducer]]:
    found: dict[TopicPartition, list[ActiveProducer]] = {}
    refused: dict[TopicPartition, KafkaError] = {}
    for topic in response.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            try:
                check(one.error_code, str(partition), one.error_message)
            except KafkaError as problem:
                refused[partition] = problem
            else:
                found[partition] = _producers(one)
    return found, refused


def _producers(answered: PartitionResponse) -> list[ActiveProducer]:
    return [
        ActiveProducer(
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            None if one.last_timestamp < 0 else one.last_timestamp,
            None if one.current_txn_start_offset < 0 else one.current_txn_start_offset,
        )
        for one in answered.active_producers
    ]
