"""Administration of transactions through their coordinators and the leaders of partitions (KIP-664)."""

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kohort.client.admin.producers import describe_producers
from kohort.client.net import BrokerConnection, Cluster, ask_leaders
from kohort.errors import ConfigError, ErrorCode, KafkaError
from kohort.model import Millis, TopicPartition
from kohort.requests import ActiveProducer, PartitionResults, ProducerId, check, error_of
from kohort.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kohort.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_TRANSACTIONS, _KEY_TYPE = "transactions", 1

_DURATION_FROM, _PATTERN_FROM = 1, 2
"""Versions of ListTransactions that have these filters (KIP-994, KIP-1152)."""

_FENCES_AFTER_MS = 30_000
"""Timeout of the transaction that fencing never begins."""


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """Transactional ID in a coordinator's list."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """Transaction of a transactional ID, or the last one."""

    transactional_id: str
    coordinator_id: int | None
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: Millis
    started_at: Millis | None
    """Start of the open transaction, else of the last one; None before the first. `state` says whether it is open."""
    partitions: frozenset[TopicPartition] = field(default_factory=frozenset)
    """Partitions of the open transaction."""


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """Open transaction in a partition that no coordinator will end."""

    partition: TopicPartition
    producer: ActiveProducer
    transactional_id: str | None
    """Transactional ID of the producer, if a coordinator has one."""


async def list_transactions(
    cluster: Cluster,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    min_duration_ms: Millis | None = None,
    pattern: str | None = None,
) -> list[TransactionListing]:
    """Return the transactional IDs of all coordinators that match, sorted by name."""
    await cluster.retrying(cluster.refresh)
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=-1 if min_duration_ms is None else min_duration_ms,
        transactional_id_pattern=pattern,
    )

    async def ask(node: int) -> list[TransactionListing]:
        async def attempt() -> list[TransactionListing]:
            connection = await cluster.connection(node)
            _check_filters(connection, request)
            response = await connection.request(request, ListTransactionsResponse)
            check(response.error_code, f"broker {node}")
            if response.unknown_state_filters:
                names = ", ".join(sorted(response.unknown_state_filters))
                raise ConfigError(f"{names}: no state of transactions; states are Empty, Ongoing, CompleteCommit ...")
            return [
                TransactionListing(found.transactional_id, found.producer_id, found.transaction_state, node)
                for found in response.transaction_states
            ]

        return await cluster.retrying(attempt)

    answers = await asyncio.gather(*(ask(node) for node in cluster.metadata.brokers))
    return sorted((found for answer in answers for found in answer), key=lambda found: found.transactional_id)


def _check_filters(connection: BrokerConnection, request: ListTransactionsRequest) -> None:
    version = connection.version_of(ListTransactionsRequest)
    for given, since, name in (
        (request.duration_filter >= 0, _DURATION_FROM, "a duration"),
        (request.transactional_id_pattern is not None, _PATTERN_FROM, "a pattern"),
    ):
        if given and version < since:
            detail = f"the broker at {connection.address} is too old to filter transactions by {name}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)


async def describe_transactions(
    cluster: Cluster, transactional_ids: Collection[str]
) -> dict[str, TransactionDescription]:
    """Return the transaction of each ID. Raises TRANSACTIONAL_ID_NOT_FOUND, and other errors."""
    await cluster.retrying(cluster.refresh)
    found = await asyncio.gather(*(_describe(cluster, name) for name in dict.fromkeys(transactional_ids)))
    return {description.transactional_id: description for description in found}


async def _describe(cluster: Cluster, transactional_id: str) -> TransactionDescription:
    async def attempt() -> TransactionDescription:
        connection = await cluster.coordinator(transactional_id, _TRANSACTIONS, _KEY_TYPE)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        response = await connection.request(request, DescribeTransactionsResponse)
        described = next(
            (state for state in response.transaction_states if state.transactional_id == transactional_id), None
        )
        if described is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{transactional_id}: the answer lacks it")
        check(described.error_code, transactional_id)
        brokers = cluster.metadata.brokers.values()
        return TransactionDescription(
            transactional_id,
            next((broker.node_id for broker in brokers if (broker.host, broker.port) == connection.peer), None),
            described.transaction_state,
            described.producer_id,
            described.producer_epoch,
            described.transaction_timeout_ms,
            None if described.transaction_start_time_ms < 0 else described.transaction_start_time_ms,
            frozenset(TopicPartition(topic.topic, number) for topic in described.topics for number in topic.partitions),
        )

    return await cluster.retrying(attempt)


async def abort_transaction(cluster: Cluster, partition: TopicPartition, producer: ActiveProducer) -> None:
    """Write the abort marker of a producer to a partition, without its coordinator. Raises KafkaError."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        coordinator_epoch=0 if producer.coordinator_epoch is None else producer.coordinator_epoch,
        topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
    )

    async def ask(connection: BrokerConnection, some: Mapping[TopicPartition, None]) -> PartitionResults[None]:
        response = await connection.request(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
        codes = [
            entry.error_code
            for result in response.markers
            for topic in result.topics
            for entry in topic.partitions
            if (topic.name, entry.partition_index) == partition
        ]
        error = error_of(codes[0] if codes else ErrorCode.UNKNOWN_SERVER_ERROR, str(partition))
        return ({partition: None}, {}) if error is None else ({}, {partition: error})

    await ask_leaders(cluster, {partition: None}, ask)


async def fence_producers(cluster: Cluster, transactional_ids: Collection[str]) -> dict[str, ProducerId]:
    """Fence the producers of these IDs, abort their open transactions, and return the new epochs."""
    names = list(dict.fromkeys(transactional_ids))
    fenced = await asyncio.gather(*(_fence(cluster, name) for name in names))
    return dict(zip(names, fenced, strict=True))


async def _fence(cluster: Cluster, transactional_id: str) -> ProducerId:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=_FENCES_AFTER_MS)

    async def attempt() -> ProducerId:
        connection = await cluster.coordinator(transactional_id, _TRANSACTIONS, _KEY_TYPE)
        response = await connection.request(request, InitProducerIdResponse)
        check(response.error_code, transactional_id)
        return ProducerId(response.producer_id, response.producer_epoch)

    return await cluster.retrying(attempt)


async def find_hanging_transactions(
    cluster: Cluster, partitions: Iterable[TopicPartition], max_transaction_timeout_ms: Millis
) -> list[HangingTransaction]:
    """Return the open transactions of partitions that no coordinator will end.

    These are the ones that have written nothing for longer than the brokers' longest timeout, and of
    which no coordinator has the partition.
    """
    now = time.time_ns() // 1_000_000
    old = [
        (partition, producer)
        for partition, producers in (await describe_producers(cluster, list(partitions))).items()
        for producer in producers
        if producer.transaction_start is not None
        and producer.last_timestamp is not None
        and now - producer.last_timestamp > max_transaction_timeout_ms
    ]
    if not old:
        return []
    listed = await list_transactions(cluster, producer_ids=sorted({producer.producer_id for _, producer in old}))
    names = {found.producer_id: found.transactional_id for found in listed}
    described = await asyncio.gather(*(_described(cluster, name) for name in set(names.values())))
    current = {found.transactional_id: found for found in described if found is not None}
    hanging = []
    for partition, producer in old:
        name = names.get(producer.producer_id)
        transaction = current.get(name) if name is not None else None
        if transaction is None or partition not in transaction.partitions:
            hanging.append(HangingTransaction(partition, producer, name))
    return hanging


async def _described(cluster: Cluster, transactional_id: str) -> TransactionDescription | None:
    """Return the transaction; None if its ID has expired since it was listed."""
    try:
        return await _describe(cluster, transactional_id)
    except KafkaError as problem:
        if problem.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        raise
