"""Requests of transactions that are unusual: about nothing, about what does not exist, and several at a time."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kohort.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kohort.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker.peer import Peer
from tests.broker.transactions.producers import BOTH, NONE, NOW, V1, V2, committed_values, ended, started
from tests.broker.virtual import VirtualBroker, in_virtual_time

UNKNOWN, NOT_ATTEMPTED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED


def test_partitions_that_do_not_exist_are_not_added() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        assert await producer.add("orders", 0, 2) == [NOT_ATTEMPTED, UNKNOWN]
        assert await producer.add("orders", -1) == [UNKNOWN]
        assert await producer.add("nowhere", 0) == [UNKNOWN]
        one = AddPartitionsToTxnTransaction(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[AddPartitionsToTxnTopic(name="orders", partitions=[1, 2])],
        )
        answer = await peer.ask(AddPartitionsToTxnRequest(transactions=[one]), 4, AddPartitionsToTxnResponse)
        [topic] = answer.results_by_transaction[0].topic_results
        assert [one.partition_error_code for one in topic.results_by_partition] == [NOT_ATTEMPTED, UNKNOWN]
        assert (await producer.state()).transaction_state == "Empty"

    in_virtual_time(steps)


def test_requests_about_nothing_are_answered() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        # There is no topic of transactions yet.
        described = await peer.ask(
            DescribeTransactionsRequest(transactional_ids=["", "tx"]), 0, DescribeTransactionsResponse
        )
        assert [(one.transactional_id, one.error_code) for one in described.transaction_states] == [
            ("", ErrorCode.INVALID_REQUEST),
            ("tx", ErrorCode.NOT_COORDINATOR),
        ]
        assert (await peer.ask(WriteTxnMarkersRequest(), 1, WriteTxnMarkersResponse)).markers == []
        added = await peer.ask(AddPartitionsToTxnRequest(), 4, AddPartitionsToTxnResponse)
        assert added.results_by_transaction == []

    in_virtual_time(steps)


def test_batches_that_name_their_topic_by_id_are_added_to_the_transaction() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V2)
        topic = world.broker.topics.named("orders")
        assert topic is not None
        data = [PartitionProduceData(index=1, records=producer.batch("orders", 1, (b"a",)))]
        request = ProduceRequest(
            transactional_id="tx", acks=-1, topic_data=[TopicProduceData(topic_id=topic.topic_id, partition_data=data)]
        )
        answer = await peer.ask(request, 13, ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == NONE
        [added] = (await producer.state()).topics
        assert (added.topic, added.partitions) == ("orders", [1])
        await ended(producer)
        assert await committed_values(peer, "orders", 1) == [b"a"]

    in_virtual_time(steps)


def test_a_batch_behind_one_of_a_topic_that_does_not_exist_is_verified_all_the_same() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        topics = [
            TopicProduceData(name=name, partition_data=[PartitionProduceData(records=producer.batch(name, 0, (b"a",)))])
            for name in ("nowhere", "orders")
        ]
        request = ProduceRequest(transactional_id="tx", acks=-1, topic_data=topics)
        answer = await peer.ask(request, 11, ProduceResponse)
        codes = {one.name: one.partition_responses[0].error_code for one in answer.responses}
        assert codes == {"nowhere": UNKNOWN, "orders": ErrorCode.TRANSACTION_ABORTABLE}

    in_virtual_time(steps)


@pytest.mark.parametrize("requests", [2, 5])
def test_requests_of_one_producer_that_arrive_together_are_handled_in_turn(requests: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V2)
        values = [b"%d" % number for number in range(requests)]
        for number, value in enumerate(values):
            producer.sequences["orders", 0] = number
            data = [PartitionProduceData(records=producer.batch("orders", 0, (value,)))]
            topics = [TopicProduceData(name="orders", partition_data=data)]
            peer.send(ProduceRequest(transactional_id="tx", acks=-1, topic_data=topics), 12)
        for _ in values:
            answer = await peer.answer(ProduceResponse)
            assert answer.responses[0].partition_responses[0].error_code == NONE
        await ended(producer)
        assert await committed_values(peer, "orders") == values

    in_virtual_time(steps)


def test_markers_of_an_older_epoch_leave_the_offsets_of_a_group_pending() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        await started(world, peer, V1)
        producer = await started(world, peer, V1)
        assert producer.epoch == 1
        assert await producer.commit_offset("g", "orders", 0, 7) is NONE
        [offsets] = (await producer.state()).topics

        async def end(epoch: int) -> int:
            marker = WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=epoch,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic(name=offsets.topic, partition_indexes=offsets.partitions)],
            )
            answer = await peer.ask(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
            return answer.markers[0].topics[0].partitions[0].error_code

        assert await end(0) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await end(1) == NONE

    in_virtual_time(steps)


@BOTH
def test_a_transaction_ends_whose_topic_was_recreated_with_fewer_partitions(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, version)
        await producer.write("orders", 1, b"a")
        before = world.broker.topics.named("orders")
        assert before is not None
        world.broker.delete_topic(before)
        world.broker.topics.create("orders", 1)
        await ended(producer)
        assert await committed_values(peer, "orders") == []

    in_virtual_time(steps)


def test_a_batch_behind_one_that_is_not_transactional_is_verified_all_the_same() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        plain = encode_batch([Record(0, NOW, None, b"plain")])
        data = [
            PartitionProduceData(index=0, records=plain),
            PartitionProduceData(index=1, records=producer.batch("orders", 1, (b"a",))),
        ]
        topics = [TopicProduceData(name="orders", partition_data=data)]
        answer = await peer.ask(ProduceRequest(transactional_id="tx", acks=-1, topic_data=topics), 11, ProduceResponse)
        codes = [one.error_code for one in answer.responses[0].partition_responses]
        assert codes == [NONE, ErrorCode.TRANSACTION_ABORTABLE]

    in_virtual_time(steps)
