"""Permissions of requests about transactions: each step is refused until all of its ACLs are there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.security import Operation, ResourceType
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kohort.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kohort.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kohort.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kohort.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker.access.test_guards import SETTINGS, allow, as_user
from tests.broker.conftest import MakeBroker
from tests.broker.peer import Peer
from tests.broker.transactions.producers import NONE, V1, V2, TransactionalProducer

ID, GROUP, TOPIC, CLUSTER = (
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)

Permission = tuple[Operation, ResourceType, str]
WRITE_ID: Permission = (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "tx")
READ_GROUP: Permission = (Operation.READ, ResourceType.GROUP, "g")
READ_TOPIC: Permission = (Operation.READ, ResourceType.TOPIC, "own")
WRITE_TOPIC: Permission = (Operation.WRITE, ResourceType.TOPIC, "own")
ACTION: Permission = (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
ALTER: Permission = (Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")

Step = Callable[[TransactionalProducer], Awaitable[ErrorCode]]


@pytest.fixture
async def secured(start_broker: MakeBroker) -> Broker:
    """A broker with the topics `own` and `other`; root may do everything, alice nothing."""
    ahead = {"log.message.timestamp.after.max.ms": str(2**62)}  # records of TransactionalProducer are of virtual time
    broker = await start_broker(BrokerOptions(settings=SETTINGS | ahead))
    for name in ("own", "other"):
        broker.topics.create(name, 1)
    return broker


@pytest.fixture
async def producer(secured: Broker) -> AsyncIterator[TransactionalProducer]:
    """A producer of root with an open transaction that has the topics own and other."""
    async with as_user(secured, "root") as peer:
        producer = TransactionalProducer(peer, version=V1)
        await producer.ready()
        await producer.write("own", 0, b"a")
        await producer.write("other", 0, b"a")
        yield producer


def of_alice(peer: Peer, producer: TransactionalProducer, version: int = V1) -> TransactionalProducer:
    sequences = dict(producer.sequences)
    return TransactionalProducer(peer, "tx", version, 60_000, producer.producer_id, producer.epoch, sequences)


async def add_partition(producer: TransactionalProducer) -> ErrorCode:
    [code] = await producer.add("own", 0)
    return code


async def add_group(producer: TransactionalProducer) -> ErrorCode:
    request = AddOffsetsToTxnRequest(
        transactional_id="tx", producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id="g"
    )
    answer = await producer.peer.ask(request, 3, AddOffsetsToTxnResponse)
    return ErrorCode(answer.error_code)


async def send_offset(producer: TransactionalProducer) -> ErrorCode:
    code = await producer.send_offset("g", "own", 0, 7)
    return NONE if code is ErrorCode.TRANSACTION_ABORTABLE else code  # the group is not in the transaction


async def send(producer: TransactionalProducer) -> ErrorCode:
    return await producer.send("own", 0, b"b")


async def end(producer: TransactionalProducer) -> ErrorCode:
    return await producer.end(commit=True)


async def verify(producer: TransactionalProducer) -> ErrorCode:
    one = AddPartitionsToTxnTransaction(
        transactional_id="tx",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=True,
        topics=[AddPartitionsToTxnTopic(name="own", partitions=[0])],
    )
    request = AddPartitionsToTxnRequest(transactions=[one])
    answer = await producer.peer.ask(request, 4, AddPartitionsToTxnResponse)
    return ErrorCode(answer.error_code)


async def write_marker(producer: TransactionalProducer) -> ErrorCode:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="own", partition_indexes=[0])],
    )
    answer = await producer.peer.ask(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


@pytest.mark.parametrize(
    ("step", "version", "needed"),
    [
        (add_partition, V1, [(ID, WRITE_ID), (TOPIC, WRITE_TOPIC)]),
        (add_group, V1, [(ID, WRITE_ID), (GROUP, READ_GROUP)]),
        (send_offset, V1, [(ID, WRITE_ID), (GROUP, READ_GROUP), (TOPIC, READ_TOPIC)]),
        (send_offset, V2, [(ID, WRITE_ID), (GROUP, READ_GROUP), (TOPIC, READ_TOPIC)]),
        (send, V1, [(ID, WRITE_ID), (TOPIC, WRITE_TOPIC)]),
        (send, V2, [(ID, WRITE_ID), (TOPIC, WRITE_TOPIC)]),
        (end, V1, [(ID, WRITE_ID)]),
        (end, V2, [(ID, WRITE_ID)]),
        (verify, V1, [(CLUSTER, ACTION)]),
        (write_marker, V1, [(CLUSTER, ALTER)]),
        (write_marker, V1, [(CLUSTER, ACTION)]),
    ],
)
async def test_a_step_is_refused_until_all_of_its_acls_are_there(
    secured: Broker,
    producer: TransactionalProducer,
    step: Step,
    version: int,
    needed: Sequence[tuple[ErrorCode, Permission]],
) -> None:
    async with as_user(secured, "alice") as peer:
        alice = of_alice(peer, producer, version)
        for code, permission in needed:
            assert await step(alice) is code
            allow(secured, *permission)
        assert await step(alice) is NONE


async def test_no_partition_is_added_if_the_client_may_not_write_to_one(
    secured: Broker, producer: TransactionalProducer
) -> None:
    allow(secured, *WRITE_ID)
    allow(secured, *WRITE_TOPIC)
    async with as_user(secured, "alice") as peer:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("own", "other", "none")
            ],
        )
        answer = await peer.ask(request, 3, AddPartitionsToTxnResponse)
        codes = {
            topic.name: ErrorCode(topic.results_by_partition[0].partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
        }
        assert codes == {"own": ErrorCode.OPERATION_NOT_ATTEMPTED, "other": TOPIC, "none": TOPIC}


async def test_transactions_are_listed_and_described_to_those_who_may_describe_them(
    secured: Broker, producer: TransactionalProducer
) -> None:
    async with as_user(secured, "alice") as peer:

        async def listed() -> list[str]:
            answer = await peer.ask(ListTransactionsRequest(), 1, ListTransactionsResponse)
            assert not answer.error_code
            return [state.transactional_id for state in answer.transaction_states]

        async def described() -> tuple[int, list[str]]:
            request = DescribeTransactionsRequest(transactional_ids=["tx"])
            [state] = (await peer.ask(request, 0, DescribeTransactionsResponse)).transaction_states
            return state.error_code, [topic.topic for topic in state.topics]

        assert (await listed(), await described()) == ([], (ID, []))
        allow(secured, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "tx")
        assert (await listed(), await described()) == (["tx"], (NONE, []))
        allow(secured, Operation.DESCRIBE, ResourceType.TOPIC, "own")
        assert await described() == (NONE, ["own"])
