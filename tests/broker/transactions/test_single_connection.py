"""Requests on an older connection of a producer that has one at a time: the broker closes it, and does nothing else.

The same requests without the setting are in `test_late_requests`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from kohort.broker.config import SINGLE_CONNECTION
from kohort.errors import ErrorCode
from kohort.wire.codec import Message
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kohort.wire.messages.end_txn import EndTxnRequest
from tests.broker.peer import Peer, connected
from tests.broker.transactions.producers import (
    V1,
    V2,
    TransactionalProducer,
    committed_values,
    ended,
    started,
)
from tests.broker.virtual import PORT, VirtualBroker, in_virtual_time

ON = {SINGLE_CONNECTION: "true"}


@asynccontextmanager
async def on_a_newer_connection(producer: TransactionalProducer) -> AsyncIterator[TransactionalProducer]:
    """The producer as it goes on after it has given its connection up."""
    async with connected(f"127.0.0.1:{PORT}") as newer:
        yield replace(producer, peer=newer, sequences=dict(producer.sequences))


def late_end(producer: TransactionalProducer, *, commit: bool = True) -> tuple[Message, int]:
    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=commit,
    )
    return request, 4


def late_partition(producer: TransactionalProducer) -> tuple[Message, int]:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
    )
    return request, 3


def late_group(producer: TransactionalProducer) -> tuple[Message, int]:
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id="g",
    )
    return request, 3


async def is_closed_by(peer: Peer, late: tuple[Message, int]) -> bool:
    peer.send(*late)
    return await peer.closed()


@pytest.mark.parametrize("commit", [True, False])
def test_a_late_end_does_not_cut_the_next_transaction_in_two(commit: bool) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        await producer.write("orders", 0, b"a")
        async with on_a_newer_connection(producer) as newer:
            await ended(newer, commit=commit)
            await newer.write("orders", 0, b"b")
            assert await is_closed_by(peer, late_end(producer, commit=commit))
            await newer.write("orders", 1, b"c")
            await ended(newer, commit=not commit)
            seen = [await committed_values(newer.peer, "orders", number) for number in range(2)]
            assert seen == ([[b"a"], []] if commit else [[b"b"], [b"c"]])

    in_virtual_time(steps, ON)


@pytest.mark.parametrize("late", [late_partition, late_group])
def test_an_end_outdates_late_partitions_and_groups(
    late: Callable[[TransactionalProducer], tuple[Message, int]],
) -> None:
    # The three requests are one family: the producer has said nothing but EndTxn on the newer connection.
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        await producer.write("orders", 0, b"a")
        async with on_a_newer_connection(producer) as newer:
            await ended(newer)
            assert await is_closed_by(peer, late(producer))
            assert (await newer.state()).transaction_state == "CompleteCommit"

    in_virtual_time(steps, ON)


def test_connections_from_before_the_coordinator_moved_away_and_back_are_late() -> None:
    # The producer may have ended the transaction there, and begun the next one.
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        await producer.write("orders", 0, b"a")
        coordinator = world.broker.transactions
        coordinator.give_up(range(50))
        coordinator.lead(range(50))
        assert await is_closed_by(peer, late_end(producer))
        async with on_a_newer_connection(producer) as newer:
            assert (await newer.state()).transaction_state == "Ongoing"
            await ended(newer)
            assert await committed_values(newer.peer, "orders", 0) == [b"a"]

    in_virtual_time(steps, ON)


def test_a_request_behind_a_late_one_is_not_carried_out_either() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        await producer.write("orders", 0, b"a")
        async with on_a_newer_connection(producer) as newer:
            await ended(newer)
            peer.send(*late_end(producer))
            assert await is_closed_by(peer, late_partition(producer))
            assert (await newer.state()).transaction_state == "CompleteCommit"

    in_virtual_time(steps, ON)


def test_other_producers_and_other_epochs_of_an_older_connection_are_served() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        other = await started(world, peer, V1, "other")
        async with on_a_newer_connection(producer) as newer:
            await newer.write("orders", 0, b"a")
            await ended(newer)
            await other.write("orders", 0, b"b")
            await ended(other)
            # The next run of the program, through a connection that is older for the epoch before.
            await producer.ready()
            await producer.write("orders", 0, b"c")
            await ended(producer)
            assert await newer.end(commit=True) is ErrorCode.PRODUCER_FENCED
            assert await committed_values(peer, "orders") == [b"a", b"b", b"c"]

    in_virtual_time(steps, ON)


def test_version_2_needs_no_order_of_connections() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V2)
        async with on_a_newer_connection(producer) as newer:
            await newer.write("orders", 0, b"a")
            await ended(newer)
            producer.epoch = newer.epoch
            await producer.write("orders", 0, b"b")
            await ended(producer)
            assert await committed_values(peer, "orders") == [b"a", b"b"]

    in_virtual_time(steps, ON)


@pytest.mark.parametrize(
    ("settings", "closes"),
    [
        ({}, False),
        ({"listener.name.plaintext." + SINGLE_CONNECTION: "true"}, True),
        ({**ON, "listener.name.plaintext." + SINGLE_CONNECTION: "false"}, False),
    ],
)
def test_each_listener_has_the_setting(settings: dict[str, str], closes: bool) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        await producer.write("orders", 0, b"a")
        async with on_a_newer_connection(producer) as newer:
            await ended(newer)
            if closes:
                assert await is_closed_by(peer, late_end(producer))
            else:
                await ended(producer)

    in_virtual_time(steps, settings)


def test_the_warning_says_once_for_a_producer_what_it_means_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kohort.broker")

    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        await producer.write("orders", 0, b"a")
        async with on_a_newer_connection(producer) as second, on_a_newer_connection(producer) as third:
            await second.add("orders", 0)
            await ended(third)
            for older in (peer, second.peer):
                assert await is_closed_by(older, late_end(producer))

    in_virtual_time(steps, ON)
    logged = [record.getMessage() for record in caplog.records]
    [warning] = [text for text in logged if "is not carried out" in text]
    assert "transactional ID tx" in warning and "EndTxn" in warning and f"{SINGLE_CONNECTION}=false" in warning
    assert len([text for text in logged if "closing connection" in text and "a late EndTxn" in text]) == 2
