"""Batches whose partition is verified or added while its leader changes, or while its transaction ends (KIP-890)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from kohort.broker.logs import SingleBroker
from kohort.broker.transactions import Question, TransactionPartition, Verdicts, marking
from kohort.errors import ErrorCode
from kohort.log import PartitionLog
from kohort.log.cluster import PartitionId
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kohort.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker.peer import Peer, connected
from tests.broker.transactions.producers import (
    BOTH,
    NONE,
    V1,
    V2,
    TransactionalProducer,
    committed_values,
    fetched_offset,
    started,
)
from tests.broker.virtual import PORT, VirtualBroker, eventually, in_virtual_time


class Questions:
    """Questions to the coordinator about partitions, which wait from `hold` until `release`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: list[Callable[[], None]] = []
        self._monkeypatch = monkeypatch

    def hold(self) -> None:
        real = TransactionPartition.handle

        def handle(shard: TransactionPartition, request: Any, *rest: Any) -> None:
            if isinstance(request, AddPartitionsToTxnRequest):
                self.waiting.append(partial(real, shard, request, *rest))
            else:
                real(shard, request, *rest)

        self._monkeypatch.setattr(TransactionPartition, "handle", handle)

    def release(self) -> None:
        self._monkeypatch.undo()
        for question in self.waiting:
            question()


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Questions:
    return Questions(monkeypatch)


async def with_partitions(world: VirtualBroker, peer: Peer, version: int) -> TransactionalProducer:
    producer = await started(world, peer, version)
    if version == V1:
        assert await producer.add("orders", 0, 1) == [NONE, NONE]
    return producer


def log_of(world: VirtualBroker, partition: int) -> PartitionLog:
    found = world.broker.partition("orders", partition)
    assert found is not None
    return found


def send_to_both(producer: TransactionalProducer, value: bytes) -> None:
    """Send one request with a batch for each partition."""
    data = [
        PartitionProduceData(index=number, records=producer.batch("orders", number, (value,))) for number in range(2)
    ]
    send(producer, data)


def send(producer: TransactionalProducer, data: list[PartitionProduceData]) -> None:
    topics = [TopicProduceData(name="orders", partition_data=data)]
    request = ProduceRequest(transactional_id=producer.transactional_id, acks=-1, topic_data=topics)
    producer.peer.send(request, 12 if producer.version == V2 else 11)


async def answers(peer: Peer) -> list[ErrorCode]:
    [topic] = (await peer.answer(ProduceResponse)).responses
    return [ErrorCode(one.error_code) for one in topic.partition_responses]


@BOTH
def test_a_broker_that_becomes_the_leader_while_it_asks_takes_no_batch_that_it_did_not_ask_about(
    version: int, questions: Questions
) -> None:
    # The coordinator is asked about partition 1 only. With version 2, the transaction would not have partition 0, and
    # its batch would end with the producer's next transaction.
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await with_partitions(world, peer, version)
        leadership = world.broker.leadership
        assert isinstance(leadership, SingleBroker)
        orders = world.broker.topics.named("orders")
        assert orders is not None
        leadership.unavailable.add(PartitionId(orders.topic_id, 0))
        questions.hold()
        send_to_both(producer, b"a")
        await eventually(lambda: bool(questions.waiting))
        leadership.unavailable.clear()
        questions.release()
        assert await answers(peer) == [ErrorCode.NOT_LEADER_OR_FOLLOWER, NONE]
        assert log_of(world, 0).end_offset == 0

        assert await producer.send("orders", 0, b"a") is NONE
        assert await producer.end(commit=True) is NONE
        assert await producer.completed() == "CompleteCommit"
        for number in range(2):
            assert await committed_values(peer, "orders", number) == [b"a"]

    in_virtual_time(steps)


@BOTH
def test_the_batches_of_a_request_have_one_producer_and_epoch(version: int) -> None:
    # The coordinator is asked about one epoch, and its answer would count for the batch of the other one, too.
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await with_partitions(world, peer, version)
        old = PartitionProduceData(index=0, records=producer.batch("orders", 0, (b"a",)))
        await producer.ready()
        send(producer, [old, PartitionProduceData(index=1, records=producer.batch("orders", 1, (b"b",)))])
        assert await answers(peer) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
        assert [await committed_values(peer, "orders", number) for number in range(2)] == [[], []]

    in_virtual_time(steps)


@BOTH
def test_a_batch_is_refused_if_its_transaction_is_ended_while_the_broker_asks_about_another_partition(
    version: int, questions: Questions
) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await with_partitions(world, peer, version)
        assert await producer.send("orders", 1, b"a") is NONE
        questions.hold()
        send_to_both(producer, b"b")
        await eventually(lambda: bool(questions.waiting))
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=False,
            coordinator_epoch=0,
            topics=[WritableTxnMarkerTopic(name="orders", partition_indexes=[1])],
        )
        async with connected(f"127.0.0.1:{PORT}") as operator:
            await operator.ask(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
        questions.release()
        assert await answers(peer) == [NONE, ErrorCode.INVALID_TXN_STATE]
        assert not log_of(world, 1).producers.open_transactions()

    in_virtual_time(steps)


@BOTH
def test_a_batch_is_refused_if_its_transaction_is_ended_while_the_broker_asks_about_it(
    version: int, questions: Questions
) -> None:
    # Else it would hang, and hold readers up: nobody writes another marker of this transaction.
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await with_partitions(world, peer, version)
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch + (version == V2),  # its end begins another epoch
            transaction_result=False,
            coordinator_epoch=0,
            topics=[WritableTxnMarkerTopic(name="orders", partition_indexes=[0])],
        )
        questions.hold()
        async with asyncio.TaskGroup() as group, connected(f"127.0.0.1:{PORT}") as operator:
            sent = group.create_task(producer.send("orders", 0, b"a"))
            await eventually(lambda: bool(questions.waiting))
            await operator.ask(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
            questions.release()
        refused = {V1: ErrorCode.INVALID_TXN_STATE, V2: ErrorCode.INVALID_PRODUCER_EPOCH}
        assert sent.result() is refused[version]
        assert not log_of(world, 0).producers.open_transactions()

    in_virtual_time(steps)


@BOTH
def test_offsets_are_committed_again_if_their_shard_was_with_another_broker_while_the_broker_asks(
    version: int, questions: Questions
) -> None:
    # INVALID_TXN_STATE would be fatal, but the transaction may still be open.
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await with_partitions(world, peer, version)
        assert await producer.commit_offset("g", "orders", 0, 7) is NONE
        assert await producer.end(commit=True) is NONE
        assert await producer.completed() == "CompleteCommit"
        questions.hold()
        async with asyncio.TaskGroup() as group:
            commit = group.create_task(producer.commit_offset("g", "orders", 0, 8))
            await eventually(lambda: bool(questions.waiting))
            groups = world.broker.groups
            shard = groups.shard("g")
            groups.give_up([shard.partition])
            groups.lead([shard.partition])
            await eventually(lambda: shard.ready)
            questions.release()
        assert commit.result() is ErrorCode.NOT_COORDINATOR
        assert await producer.commit_offset("g", "orders", 0, 8) is NONE
        assert await producer.end(commit=True) is NONE
        assert await producer.completed() == "CompleteCommit"
        assert await fetched_offset(peer, "g", "orders", stable=True) == (8, NONE)

    in_virtual_time(steps)


@BOTH
def test_offsets_are_refused_if_their_transaction_is_ended_while_the_broker_asks(
    version: int, questions: Questions
) -> None:
    # Else they would stay pending: nobody writes another marker of this transaction.
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await with_partitions(world, peer, version)
        shard = world.broker.groups.shard("g")
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch + (version == V2),  # its end begins another epoch
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name="__consumer_offsets", partition_indexes=[shard.partition])],
        )
        questions.hold()
        async with asyncio.TaskGroup() as group, connected(f"127.0.0.1:{PORT}") as operator:
            commit = group.create_task(producer.commit_offset("g", "orders", 0, 7))
            await eventually(lambda: bool(questions.waiting))
            answer = await operator.ask(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
            assert answer.markers[0].topics[0].partitions[0].error_code == NONE
            questions.release()
        assert (
            commit.result()
            is {
                V1: ErrorCode.INVALID_TXN_STATE,
                V2: ErrorCode.INVALID_PRODUCER_EPOCH,
            }[version]
        )
        assert await fetched_offset(peer, "g", "orders", stable=True) == (-1, NONE)

    in_virtual_time(steps)


@pytest.mark.parametrize("offsets", [False, True], ids=["records", "offsets"])
def test_the_marker_of_the_last_transaction_does_not_end_the_next_one_while_the_broker_asks(
    offsets: bool, monkeypatch: pytest.MonkeyPatch, questions: Questions
) -> None:
    # The question leaves before the marker is written, and is read when the last transaction is completed.
    # INVALID_TXN_STATE would be fatal to Java's producer.
    markers: list[Callable[[], None]] = []
    real = marking.append_marker

    def write(producer: TransactionalProducer) -> Coroutine[Any, Any, ErrorCode]:
        return producer.commit_offset("g", "orders", 0, 8) if offsets else producer.send("orders", 0, b"b")

    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await with_partitions(world, peer, V2)
        assert await write(producer) is NONE
        with monkeypatch.context() as patch:
            patch.setattr(marking, "append_marker", lambda *given: markers.append(partial(real, *given)))
            assert await producer.end(commit=True) is NONE
            await eventually(lambda: bool(markers))
        questions.hold()
        async with asyncio.TaskGroup() as group, connected(f"127.0.0.1:{PORT}") as other:
            written = group.create_task(write(producer))
            await eventually(lambda: bool(questions.waiting))
            markers.pop()()
            assert await TransactionalProducer(other).completed() == "CompleteCommit"
            questions.release()
        assert written.result() is NONE
        assert await producer.end(commit=True) is NONE
        assert await producer.completed() == "CompleteCommit"
        assert await fetched_offset(peer, "g", "orders", stable=True) == (8 if offsets else -1, NONE)
        assert await committed_values(peer, "orders") == ([] if offsets else [b"b", b"b"])

    in_virtual_time(steps)


def test_offsets_are_committed_again_if_the_coordinator_of_the_transaction_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await with_partitions(world, peer, V2)

        def silent(self: object, question: Question, done: Callable[[Verdicts], None]) -> None:
            done(dict.fromkeys(question.partitions, ErrorCode.NETWORK_EXCEPTION))

        with monkeypatch.context() as patch:
            patch.setattr(type(world.broker.transactions.verification), "ask", silent)
            assert await producer.commit_offset("g", "orders", 0, 7) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await producer.commit_offset("g", "orders", 0, 7) is NONE

    in_virtual_time(steps)


def test_a_partition_is_added_as_soon_as_the_last_transaction_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Attempts at intervals of add.partitions.to.txn.retry.backoff.ms, 20 ms, would cost most of a short transaction.
    markers: list[Callable[[], None]] = []
    real = marking.append_marker
    monkeypatch.setattr(marking, "append_marker", lambda *given: markers.append(partial(real, *given)))

    async def steps(world: VirtualBroker, peer: Peer) -> None:
        loop = asyncio.get_running_loop()
        producer = await with_partitions(world, peer, V2)
        await producer.write("orders", 0, b"a")
        assert await producer.end(commit=True) is NONE
        await eventually(lambda: bool(markers))
        async with asyncio.TaskGroup() as group:
            sent = group.create_task(producer.send("orders", 0, b"b"))
            await asyncio.sleep(0.025)  # the coordinator has answered that the last transaction is not completed
            assert not sent.done()
            began = loop.time()
            markers.pop()()
        assert sent.result() is NONE
        assert loop.time() - began < 0.01

    in_virtual_time(steps)


def test_a_batch_that_waits_for_the_last_transaction_is_answered_as_soon_as_its_coordinator_moves_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(marking, "append_marker", lambda *given: None)

    async def steps(world: VirtualBroker, peer: Peer) -> None:
        loop = asyncio.get_running_loop()
        producer = await with_partitions(world, peer, V2)
        await producer.write("orders", 0, b"a")
        assert await producer.end(commit=True) is NONE
        async with asyncio.TaskGroup() as group:
            sent = group.create_task(producer.send("orders", 0, b"b"))
            await asyncio.sleep(0.025)  # the coordinator has answered that the last transaction is not completed
            assert not sent.done()
            began = loop.time()
            shard = world.broker.transactions.shard("tx")
            assert shard is not None
            shard.resign()
        assert sent.result() is ErrorCode.NOT_ENOUGH_REPLICAS, "which every client repeats"
        assert loop.time() - began < 0.01

    in_virtual_time(steps)
