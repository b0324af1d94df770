"""A transactional producer in plain messages, of either transaction.version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.wire.batches import Record, batches, decode_records, encode_batch
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kohort.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kohort.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from kohort.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kohort.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.broker.peer import Peer
from tests.broker.virtual import VirtualBroker

NOW = 1_800_000_000_000
NONE = ErrorCode.NONE
V1, V2 = 1, 2
BOTH = pytest.mark.parametrize("version", [V1, V2])
TRANSACTION = 1
"""Type of the key of FindCoordinator."""


@dataclass
class TransactionalProducer:
    """A producer over one connection; each step returns the error code."""

    peer: Peer
    transactional_id: str = "tx"
    version: int = V2
    timeout_ms: int = 60_000
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    async def init(self, *, continues: bool = False) -> ErrorCode:
        found = await self.peer.ask(
            FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[self.transactional_id]),
            4,
            FindCoordinatorResponse,
        )
        assert found.coordinators[0].error_code == NONE
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=self.producer_id if continues else -1,
            producer_epoch=self.epoch if continues else -1,
        )
        answer = await self.peer.ask(request, 5, InitProducerIdResponse)
        if answer.error_code == NONE:
            self._become(answer.producer_id, answer.producer_epoch)
        return ErrorCode(answer.error_code)

    async def ready(self) -> None:
        """Initialise, as often as it takes to end what the ID's last producer left open."""
        while (code := await self.init()) is not NONE:
            assert code is ErrorCode.CONCURRENT_TRANSACTIONS

    def _become(self, producer_id: int, epoch: int) -> None:
        if (self.producer_id, self.epoch) != (producer_id, epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    async def add(self, topic: str, *partitions: int) -> list[ErrorCode]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        answer = await self.peer.ask(request, 3, AddPartitionsToTxnResponse)
        [result] = answer.results_by_topic_v3_and_below
        return [ErrorCode(one.partition_error_code) for one in result.results_by_partition]

    def batch(self, topic: str, partition: int, values: tuple[bytes, ...]) -> bytearray:
        return encode_batch(
            [Record(at, NOW, None, value) for at, value in enumerate(values)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequences.get((topic, partition), 0),
            transactional=True,
        )

    async def send(self, topic: str, partition: int, *values: bytes, version: int | None = None) -> ErrorCode:
        """Produce, without adding the partition first."""
        records = self.batch(topic, partition, values)
        answer = await self.produced(topic, partition, records, 12 if self.version == V2 else 11, version)
        if answer.error_code == NONE:
            self.sequences[topic, partition] = self.sequences.get((topic, partition), 0) + len(values)
        return ErrorCode(answer.error_code)

    async def produced(
        self, topic: str, partition: int, records: bytearray, usual: int = 12, version: int | None = None
    ) -> PartitionProduceResponse:
        data = [PartitionProduceData(index=partition, records=records)]
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            topic_data=[TopicProduceData(name=topic, partition_data=data)],
        )
        answer = await self.peer.ask(request, usual if version is None else version, ProduceResponse)
        return answer.responses[0].partition_responses[0]

    async def write(self, topic: str, partition: int, *values: bytes) -> None:
        """Produce as a client of the version does."""
        if self.version == V1:
            assert await self.add(topic, partition) == [NONE]
        assert await self.send(topic, partition, *values) is NONE

    async def commit_offset(self, group: str, topic: str, partition: int, offset: int) -> ErrorCode:
        if self.version == V1:
            added = await self.peer.ask(
                AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    group_id=group,
                ),
                3,
                AddOffsetsToTxnResponse,
            )
            assert added.error_code == NONE
        return await self.send_offset(group, topic, partition, offset)

    async def send_offset(self, group: str, topic: str, partition: int, offset: int) -> ErrorCode:
        """Commit an offset, without adding the group first."""
        one = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[one])],
        )
        answer = await self.peer.ask(request, 5 if self.version == V2 else 4, TxnOffsetCommitResponse)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def end(self, *, commit: bool) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = await self.peer.ask(request, 5 if self.version == V2 else 4, EndTxnResponse)
        if answer.error_code == NONE and self.version == V2:
            self._become(answer.producer_id, answer.producer_epoch)
        return ErrorCode(answer.error_code)

    async def state(self) -> TransactionState:
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        [state] = (await self.peer.ask(request, 0, DescribeTransactionsResponse)).transaction_states
        return state

    async def completed(self) -> str:
        """Wait until all markers are written; return the state."""
        while (state := await self.state()).transaction_state.startswith("Prepare"):
            pass
        return state.transaction_state


async def ended(producer: TransactionalProducer, *, commit: bool = True) -> None:
    """End the transaction, and wait until all markers are written."""
    assert await producer.end(commit=commit) is NONE
    assert (await producer.completed()).startswith("Complete")


async def committed_values(peer: Peer, topic: str, partition: int = 0) -> list[bytes]:
    """Return the values that a consumer with read_committed sees."""
    places = [FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)]
    request = FetchRequest(max_bytes=1 << 20, isolation_level=1, topics=[FetchTopic(topic=topic, partitions=places)])
    answer = await peer.ask(request, 12, FetchResponse)
    [data] = answer.responses[0].partitions
    assert data.error_code == NONE
    aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
    records: Any = data.records or b""
    return _visible(bytes(records), aborted)


def _visible(records: bytes, aborted: list[tuple[int, int]]) -> list[bytes]:
    values: list[bytes] = []
    skipped: set[int] = set()
    for position, header in batches(records):
        for one in [one for one in aborted if one[1] <= header.base_offset]:
            skipped.add(one[0])
            aborted.remove(one)
        if header.is_control:
            skipped.discard(header.producer_id)
        elif header.producer_id not in skipped:
            values += [record.value or b"" for record in decode_records(memoryview(records)[position:])]
    return values


async def fetched_offset(peer: Peer, group: str, topic: str, *, stable: bool = False) -> tuple[int, ErrorCode]:
    asked = OffsetFetchRequestGroup(
        group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    )
    answer = await peer.ask(OffsetFetchRequest(groups=[asked], require_stable=stable), 9, OffsetFetchResponse)
    found: Any = answer.groups[0].topics[0].partitions[0]
    return found.committed_offset, ErrorCode(found.error_code)


async def started(world: VirtualBroker, peer: Peer, version: int, name: str = "tx") -> TransactionalProducer:
    """Return a producer that is ready to write to the topic orders, which is made if it is not there."""
    if world.broker.topics.named("orders") is None:
        world.broker.topics.create("orders", 2)
    producer = TransactionalProducer(peer, name, version)
    await producer.ready()
    return producer
