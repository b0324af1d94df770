"""Requests of one transaction that arrive in the next one: what the broker refuses, and what is left in version 1.

A producer that gives a connection up repeats its request on another one. Version 2 refuses the copy that arrives
late, by its epoch (KIP-890). The cases of version 1 that are accepted are in decision 016.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kohort.errors import ErrorCode
from tests.broker.peer import Peer
from tests.broker.transactions.producers import (
    BOTH,
    NONE,
    V1,
    V2,
    TransactionalProducer,
    committed_values,
    ended,
    fetched_offset,
    started,
)
from tests.broker.virtual import VirtualBroker, in_virtual_time


def late(producer: TransactionalProducer) -> TransactionalProducer:
    """Return the producer as it is now: what this one sends arrives late."""
    return replace(producer, sequences=dict(producer.sequences))


@BOTH
def test_a_batch_that_was_repeated_is_not_written_in_the_next_transaction(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, version)
        copy = late(producer)
        await producer.write("orders", 0, b"a")
        await ended(producer)
        await producer.write("orders", 0, b"b")
        known = {V1: NONE, V2: ErrorCode.INVALID_PRODUCER_EPOCH}  # version 1: answered as a duplicate
        assert await copy.send("orders", 0, b"a") is known[version]
        await ended(producer)
        assert await committed_values(peer, "orders") == [b"a", b"b"]

    in_virtual_time(steps)


@BOTH
def test_a_repeated_batch_that_is_no_longer_kept_is_out_of_order(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, version)
        copy = late(producer)
        await producer.write("orders", 0, b"0")
        await ended(producer)
        for number in range(1, 6):
            await producer.write("orders", 0, b"%d" % number)
        known = {V1: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, V2: ErrorCode.INVALID_PRODUCER_EPOCH}
        assert await copy.send("orders", 0, b"0") is known[version]
        await ended(producer)
        assert await committed_values(peer, "orders") == [b"%d" % number for number in range(6)]

    in_virtual_time(steps)


@BOTH
def test_a_batch_that_was_never_written_gets_into_the_next_transaction_in_version_1(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, version)
        await producer.write("orders", 1, b"x")
        if version == V1:
            assert await producer.add("orders", 0) == [NONE]
        copy = late(producer)
        await ended(producer, commit=False)
        if version == V1:
            assert await producer.add("orders", 0) == [NONE]
            assert await copy.send("orders", 0, b"aborted") is NONE
        else:
            assert await copy.send("orders", 0, b"aborted") is ErrorCode.INVALID_PRODUCER_EPOCH
        # In version 1, the producer's own first batch is taken for a copy of the late one, and is lost.
        assert await producer.send("orders", 0, b"b") is NONE
        await ended(producer)
        assert await committed_values(peer, "orders") == [{V1: b"aborted", V2: b"b"}[version]]

    in_virtual_time(steps)


def test_a_late_batch_of_a_partition_that_is_not_in_the_next_transaction_is_rejected() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        assert await producer.add("orders", 0, 1) == [NONE, NONE]
        copy = late(producer)
        await ended(producer, commit=False)
        await producer.write("orders", 1, b"b")
        assert await copy.send("orders", 0, b"aborted") is ErrorCode.TRANSACTION_ABORTABLE
        await ended(producer)
        assert await committed_values(peer, "orders") == []

    in_virtual_time(steps)


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_a_late_end_cuts_the_next_transaction_in_two_in_version_1(version: int, commit: bool) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, version)
        copy = late(producer)
        await producer.write("orders", 0, b"a")
        await ended(producer, commit=commit)
        await producer.write("orders", 0, b"b")
        if version == V2:
            assert await copy.end(commit=commit) is ErrorCode.PRODUCER_FENCED
        else:
            await ended(copy, commit=commit)
        await producer.write("orders", 1, b"c")
        await ended(producer, commit=not commit)
        seen = [await committed_values(peer, "orders", number) for number in range(2)]
        # The two records of the second transaction: in version 1, one is committed and the other is not.
        first = [b"a"] if commit else []
        expected = {
            (V1, True): [[*first, b"b"], []],
            (V1, False): [[], [b"c"]],
            (V2, True): [first, []],
            (V2, False): [[b"b"], [b"c"]],
        }
        assert seen == expected[version, commit]

    in_virtual_time(steps)


@BOTH
def test_a_late_partition_begins_a_transaction_in_version_1(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, version)
        copy = late(producer)
        await producer.write("orders", 0, b"a")
        await ended(producer)
        known = {V1: (NONE, "Ongoing"), V2: (ErrorCode.PRODUCER_FENCED, "CompleteCommit")}
        code, state = known[version]
        assert await copy.add("orders", 0) == [code]
        assert (await producer.state()).transaction_state == state

    in_virtual_time(steps)


@BOTH
def test_a_late_offset_replaces_that_of_the_next_transaction_in_version_1(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, version)
        copy = late(producer)
        assert await producer.commit_offset("g", "orders", 0, 7) is NONE
        await ended(producer)
        assert await producer.commit_offset("g", "orders", 0, 9) is NONE
        known = {V1: NONE, V2: ErrorCode.INVALID_PRODUCER_EPOCH}
        assert await copy.send_offset("g", "orders", 0, 7) is known[version]
        await ended(producer)
        assert await fetched_offset(peer, "g", "orders") == ({V1: 7, V2: 9}[version], NONE)

    in_virtual_time(steps)


def test_a_late_offset_of_a_group_that_is_not_in_the_next_transaction_is_rejected() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        assert await producer.commit_offset("g", "orders", 0, 7) is NONE
        await ended(producer)
        await producer.write("orders", 0, b"b")
        assert await producer.send_offset("g", "orders", 0, 7) is ErrorCode.TRANSACTION_ABORTABLE

    in_virtual_time(steps)


def test_a_late_end_that_finds_no_open_transaction_changes_nothing() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await started(world, peer, V1)
        await producer.write("orders", 0, b"a")
        await ended(producer)
        assert await producer.end(commit=True) is NONE
        assert (await producer.state()).transaction_state == "CompleteCommit"
        assert await committed_values(peer, "orders") == [b"a"]

    in_virtual_time(steps)
