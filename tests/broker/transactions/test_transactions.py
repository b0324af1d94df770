"""Transactions on one broker: from InitProducerId to the markers, in both versions (KIP-98, KIP-890)."""

from __future__ import annotations

import asyncio
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.transactions import marking
from kohort.errors import ErrorCode
from kohort.log import FileStore
from kohort.log.cluster import TRANSACTIONS_TOPIC
from kohort.wire.batches import Marker, read_marker
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from kohort.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from kohort.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker.peer import Peer
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
from tests.broker.virtual import VirtualBroker, eventually, in_virtual_time


@BOTH
def test_no_sync_is_only_for_the_record_that_all_markers_are_written(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        syncs: list[float] = []
        producer = await started(world, peer, version)
        topic = world.broker.topics.named("orders")
        log = None if topic is None else world.broker.topics.log(topic, 0)
        assert log is not None
        world.broker.writer.synced = syncs.append
        for number in range(1, 11):
            await producer.write("orders", 0, b"a")
            assert await producer.end(commit=True) is NONE
            await eventually(lambda: log.stable_offset == 2 * number)  # noqa: B023
        # Each transaction has its first record, the batch, the decision and the marker. The record of its end shares
        # the sync of the next transaction's first one.
        assert len(syncs) == 40
        assert await producer.completed() == "CompleteCommit"
        assert len(syncs) == 41

    in_virtual_time(steps)


@BOTH
def test_records_and_offsets_become_visible_together(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, version)
        await producer.write("orders", 0, b"a")
        await producer.write("orders", 1, b"b")
        assert await producer.commit_offset("g", "orders", 0, 7) is NONE
        assert await committed_values(peer, "orders") == []
        assert await fetched_offset(peer, "g", "orders") == (-1, NONE)
        assert await fetched_offset(peer, "g", "orders", stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert (await producer.state()).transaction_state == "Ongoing"
        assert await producer.end(commit=True) is NONE
        assert await producer.completed() == "CompleteCommit"
        assert await committed_values(peer, "orders") == [b"a"]
        assert await committed_values(peer, "orders", 1) == [b"b"]
        assert await fetched_offset(peer, "g", "orders", stable=True) == (7, NONE)

    in_virtual_time(steps)


@BOTH
def test_an_aborted_transaction_leaves_nothing_to_be_read(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, version)
        await producer.write("orders", 0, b"a")
        assert await producer.commit_offset("g", "orders", 0, 7) is NONE
        assert await producer.end(commit=False) is NONE
        assert await producer.completed() == "CompleteAbort"
        await producer.write("orders", 0, b"b")
        assert await producer.end(commit=True) is NONE
        assert await producer.completed() == "CompleteCommit"
        assert await committed_values(peer, "orders") == [b"b"]
        assert await fetched_offset(peer, "g", "orders", stable=True) == (-1, NONE)

    in_virtual_time(steps)


def test_with_version_2_every_transaction_has_an_epoch_and_late_batches_of_the_last_one_are_refused() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V2)
        await producer.write("orders", 0, b"a")
        late = producer.batch("orders", 0, (b"late",))
        epoch = producer.epoch
        assert await producer.end(commit=True) is NONE
        assert producer.epoch == epoch + 1
        assert await producer.completed() == "CompleteCommit"
        answer = await producer.produced("orders", 0, late)
        assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        await producer.write("orders", 0, b"b")
        assert (await producer.produced("orders", 0, late)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH

    in_virtual_time(steps)


@pytest.mark.parametrize("late_s", [0.05, 0.09, 5.0])
def test_a_partition_is_added_while_the_last_transaction_is_being_completed(
    late_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The marker arrives after the first attempt to add the partition. It is no reason to refuse the batch.
    real = marking.append_marker

    def late(*arguments: Any) -> None:
        asyncio.get_running_loop().call_later(late_s, real, *arguments)

    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V2)
        await producer.write("orders", 0, b"a")
        assert await producer.commit_offset("g", "orders", 0, 7) is NONE
        monkeypatch.setattr(marking, "append_marker", late)
        assert await producer.end(commit=True) is NONE
        concurrent = ErrorCode.CONCURRENT_TRANSACTIONS if late_s > 1 else NONE
        assert await producer.send("orders", 0, b"b") is concurrent
        assert await producer.commit_offset("g", "orders", 0, 8) is concurrent

    in_virtual_time(steps)


@pytest.mark.parametrize(
    ("produce_version", "code"),
    [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_batch_of_a_partition_that_was_not_added_is_refused(produce_version: int, code: ErrorCode) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        assert await producer.add("orders", 1) == [NONE]
        assert await producer.send("orders", 0, b"a", version=produce_version) is code
        assert await committed_values(peer, "orders") == []
        log = world.broker.partition("orders", 0)
        assert log is not None
        assert log.end_offset == 0

    in_virtual_time(steps)


def test_partitions_are_not_verified_if_verification_is_off() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        assert await producer.send("orders", 0, b"a") is NONE

    in_virtual_time(steps, {"transaction.partition.verification.enable": "false"})


def test_offsets_of_a_group_that_was_not_added_are_refused() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        assert await producer.add("orders", 1) == [NONE]
        assert await producer.send_offset("g", "orders", 0, 7) is ErrorCode.TRANSACTION_ABORTABLE
        assert await fetched_offset(peer, "g", "orders") == (-1, NONE)

    in_virtual_time(steps)


@BOTH
def test_a_new_producer_aborts_what_the_last_one_left_open_and_fences_it(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        old = await started(world, peer, version)
        await old.write("orders", 0, b"a")
        assert await old.commit_offset("g", "orders", 0, 7) is NONE
        new = await started(world, peer, version)
        await new.write("orders", 0, b"b")
        assert await old.end(commit=True) is ErrorCode.PRODUCER_FENCED
        assert await old.send("orders", 0, b"c") is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await old.send_offset("g", "orders", 0, 9) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await new.end(commit=True) is NONE
        assert await new.completed() == "CompleteCommit"
        assert await committed_values(peer, "orders") == [b"b"]
        assert await fetched_offset(peer, "g", "orders", stable=True) == (-1, NONE)

    in_virtual_time(steps)


@BOTH
def test_a_transaction_is_aborted_after_its_timeout(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, version)
        await producer.write("orders", 0, b"a")
        await asyncio.sleep(producer.timeout_ms / 1000 + 1)
        assert (await producer.state()).transaction_state == "CompleteAbort"
        assert await committed_values(peer, "orders") == []
        # With version 2 the request looks like a repetition, of an end with another result.
        fenced = ErrorCode.PRODUCER_FENCED if version == V1 else ErrorCode.INVALID_TXN_STATE
        assert await producer.end(commit=True) is fenced
        log = world.broker.partition("orders", 0)
        assert log is not None
        assert log.last_stable_offset == log.end_offset == 2

    in_virtual_time(steps)


def test_the_topic_of_transactions_is_created_by_the_first_who_looks_for_a_coordinator() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        assert world.broker.topics.named("__transaction_state") is None
        assert await producer_of(peer).init() is NONE
        answer = await peer.ask(MetadataRequest(topics=None), 9, MetadataResponse)
        [found] = [topic for topic in answer.topics if topic.name == "__transaction_state"]
        assert found.is_internal
        assert len(found.partitions) == 50

    def producer_of(peer: Peer) -> TransactionalProducer:
        return TransactionalProducer(peer)

    in_virtual_time(steps)


@pytest.mark.parametrize("level", [1, 2])
def test_api_versions_announces_the_level_of_the_feature(level: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        answer = await peer.ask(request, 4, ApiVersionsResponse)
        [supported] = answer.supported_features
        [finalized] = answer.finalized_features
        assert (supported.name, supported.min_version, supported.max_version) == ("transaction.version", 0, 2)
        assert (finalized.name, finalized.min_version_level, finalized.max_version_level) == (
            "transaction.version",
            level,
            level,
        )
        assert answer.finalized_features_epoch >= 0  # a client ignores features without an epoch

    in_virtual_time(steps, {"transaction.version": str(level)})


def test_transactions_are_listed_from_all_shards_and_open_ones_are_among_the_producers_of_a_partition() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producers = [await started(world, peer, V2, f"tx-{number}") for number in range(5)]
        await producers[0].write("orders", 0, b"a")
        request = ListTransactionsRequest(state_filters=["Ongoing", "Nonsense"])
        answer = await peer.ask(request, 1, ListTransactionsResponse)
        assert [(one.transactional_id, one.producer_id) for one in answer.transaction_states] == [
            ("tx-0", producers[0].producer_id)
        ]
        assert answer.unknown_state_filters == ["Nonsense"]
        answer = await peer.ask(ListTransactionsRequest(), 1, ListTransactionsResponse)
        assert {one.transactional_id for one in answer.transaction_states} == {f"tx-{number}" for number in range(5)}
        described = await peer.ask(
            DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0])]),
            0,
            DescribeProducersResponse,
        )
        [state] = described.topics[0].partitions[0].active_producers
        assert (state.producer_id, state.current_txn_start_offset) == (producers[0].producer_id, 0)

    in_virtual_time(steps)


def test_a_shard_that_was_with_another_broker_meanwhile_is_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # Else it would answer from the state before, and go on with the markers of before.
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V2)
        await producer.write("orders", 0, b"a")
        transactions = world.broker.transactions
        shard = transactions.shard("tx")
        assert shard is not None
        again: Any = copy(world.broker.partition(TRANSACTIONS_TOPIC, shard.partition))
        again._leader_epoch += 2
        term = shard.term
        with monkeypatch.context() as patch:
            patch.setattr(world.broker.topics, "log", lambda topic, number: again)
            transactions.lead([shard.partition])
            assert (shard.ready, shard.leads) == (False, True)
            await eventually(lambda: shard.ready)
        assert shard.term > term and shard.epoch == again.leader_epoch
        assert (await producer.state()).transaction_state == "Ongoing"

    in_virtual_time(steps)


def test_no_transactions_are_listed_while_a_shard_of_them_loads() -> None:
    # A list without those of one shard would look complete, and find-hanging would abort what is alive.
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        for name in ("tx", "other"):
            await (await started(world, peer, V2, name)).write("orders", 0, b"a")
        listed = await peer.ask(ListTransactionsRequest(), 1, ListTransactionsResponse)
        assert {state.transactional_id for state in listed.transaction_states} == {"tx", "other"}
        shard = world.broker.transactions.shard("tx")
        assert shard is not None
        shard.resign(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        listed = await peer.ask(ListTransactionsRequest(), 1, ListTransactionsResponse)
        assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert listed.transaction_states == []

    in_virtual_time(steps)


def test_an_operator_ends_a_hanging_transaction() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        await producer.write("orders", 0, b"a")
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=False,
            coordinator_epoch=-1,
            topics=[
                WritableTxnMarkerTopic(name="orders", partition_indexes=[0, 9]),
                WritableTxnMarkerTopic(name="nowhere", partition_indexes=[0]),
            ],
        )
        answer = await peer.ask(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
        [result] = answer.markers
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [[one.error_code for one in topic.partitions] for topic in result.topics] == [[NONE, unknown], [unknown]]
        log = world.broker.partition("orders", 0)
        assert log is not None
        assert log.last_stable_offset == log.end_offset == 2
        assert read_marker(log.read(1, 1)[0]) == Marker(False, -1)

    in_virtual_time(steps)


@BOTH
def test_a_marker_is_repeated_until_the_shard_of_the_groups_takes_it(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, version)
        await producer.write("orders", 0, b"a")
        assert await producer.commit_offset("g", "orders", 0, 7) is NONE
        groups, epoch = world.broker.groups, producer.epoch
        shard = groups.shard("g")
        groups.give_up([shard.partition])
        assert await producer.end(commit=True) is NONE
        await asyncio.sleep(1.0)  # time for several attempts
        assert (await producer.state()).transaction_state == "PrepareCommit"
        # Who sends a marker knows nothing of groups: it looks for the leader of the partition.
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=epoch,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name="__consumer_offsets", partition_indexes=[shard.partition])],
        )
        answer = await peer.ask(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
        assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        groups.lead([shard.partition])
        await eventually(lambda: shard.ready)
        assert await producer.completed() == "CompleteCommit"
        assert await fetched_offset(peer, "g", "orders", stable=True) == (7, NONE)

    in_virtual_time(steps)


@BOTH
def test_a_transaction_goes_on_after_a_restart(version: int, tmp_path: Path) -> None:
    async def before(world: VirtualBroker, peer: Peer) -> TransactionalProducer:
        producer = await started(world, peer, version)
        await producer.write("orders", 0, b"a")
        assert await producer.commit_offset("g", "orders", 0, 7) is NONE
        return producer

    async def after(world: VirtualBroker, peer: Peer) -> None:
        producer.peer = peer
        await producer.write("orders", 0, b"b")
        assert await producer.commit_offset("g", "orders", 1, 8) is NONE
        assert await fetched_offset(peer, "g", "orders", stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert await producer.end(commit=True) is NONE
        assert await producer.completed() == "CompleteCommit"
        assert await committed_values(peer, "orders") == [b"a", b"b"]
        assert await fetched_offset(peer, "g", "orders", stable=True) == (7, NONE)
        # The marker is of the new coordinator, so that one of the old coordinator would be late.
        log, shard = world.broker.partition("orders", 0), world.broker.transactions.shard("tx")
        assert log is not None and shard is not None and shard.epoch > 0
        assert read_marker(log.read(2, 1)[0]) == Marker(True, shard.epoch)

    producer = in_virtual_time(before, store=FileStore(tmp_path))
    in_virtual_time(after, store=FileStore(tmp_path))


@BOTH
def test_a_transaction_with_a_deleted_topic_still_ends(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, version)
        other = world.broker.topics.create("gone", 1)
        await producer.write("orders", 0, b"a")
        await producer.write("gone", 0, b"b")
        world.broker.delete_topic(other)
        assert await producer.end(commit=True) is NONE
        assert await producer.completed() == "CompleteCommit"
        assert await committed_values(peer, "orders") == [b"a"]

    in_virtual_time(steps)


@BOTH
def test_records_of_an_open_transaction_can_be_deleted(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, version)
        await producer.write("orders", 0, b"a")
        await producer.write("orders", 0, b"b")
        log = world.broker.partition("orders", 0)
        assert log is not None
        assert log.delete_before(1) == 1
        assert log.last_stable_offset == 1
        assert await producer.end(commit=True) is NONE
        assert await producer.completed() == "CompleteCommit"
        assert log.last_stable_offset == log.end_offset == 3
        producer_sees = await producer.send("orders", 0, b"c") if version == V2 else await producer.add("orders", 0)
        assert producer_sees in (NONE, [NONE])

    in_virtual_time(steps)
