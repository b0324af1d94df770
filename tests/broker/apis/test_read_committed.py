"""Fetch and ListOffsets with read_committed: they end before the first open transaction (KIP-98)."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.log import PartitionLog
from kohort.wire.batches import Marker, Record, batches, encode_batch, encode_marker
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.broker.peer import Peer
from tests.broker.virtual import VirtualBroker, eventually, in_virtual_time

ONE, OTHER = 1, 2
"""Producer IDs."""
NOW = 1_000_000
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


def log_of(world: VirtualBroker) -> PartitionLog:
    found = world.broker.partition("t", 0)
    assert found is not None
    return found


async def durable(world: VirtualBroker) -> None:
    world.broker.writer.current()
    await world.broker.writer.drain()


async def write(world: VirtualBroker, producer_id: int | None, sequence: int = 0) -> None:
    """Append a batch of one record, in a transaction if there is a producer. Its time is its offset."""
    log = log_of(world)
    records = [Record(0, NOW + log.end_offset, None, b"x" * 100)]
    if producer_id is None:
        sent = encode_batch(records)
    else:
        sent = encode_batch(
            records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
        )
    log.append(sent, log.leader_epoch)
    await durable(world)


async def end(world: VirtualBroker, producer_id: int, *, commit: bool) -> None:
    log = log_of(world)
    log.append(encode_marker(producer_id, 0, Marker(commit, 1), NOW), log.leader_epoch)
    await durable(world)


def request(offset: int, isolation: int, *, most: int = 1 << 20, wait_ms: int = 0, epoch: int = -1) -> FetchRequest:
    places = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=most)]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=isolation,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=places)],
    )


def offsets(records: Any) -> list[int]:
    return [header.base_offset for _, header in batches(bytes(records))] if records else []


async def fetched(peer: Peer, offset: int, isolation: int = READ_COMMITTED, most: int = 1 << 20) -> tuple[Any, ...]:
    """Return the offsets of the batches, the aborted transactions, the last stable offset and the high watermark."""
    answer = await peer.ask(request(offset, isolation, most=most), 12, FetchResponse)
    [data] = answer.responses[0].partitions
    assert data.error_code == 0
    aborted = data.aborted_transactions
    told = None if aborted is None else [(one.producer_id, one.first_offset) for one in aborted]
    return offsets(data.records), told, data.last_stable_offset, data.high_watermark


def test_a_fetch_ends_before_the_first_open_transaction() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await write(world, None)
        await write(world, ONE)
        await write(world, OTHER)
        await write(world, None)
        assert await fetched(peer, 0) == ([0], [], 1, 4)
        assert await fetched(peer, 1) == ([], [], 1, 4)
        assert await fetched(peer, 3) == ([], [], 1, 4)
        assert await fetched(peer, 0, READ_UNCOMMITTED) == ([0, 1, 2, 3], None, 1, 4)
        await end(world, ONE, commit=True)
        assert await fetched(peer, 0) == ([0, 1], [], 2, 5)
        assert await fetched(peer, 1) == ([1], [], 2, 5)
        await end(world, OTHER, commit=True)
        assert await fetched(peer, 1) == ([1, 2, 3, 4, 5], [], 6, 6)

    in_virtual_time(steps)


def test_a_fetch_names_the_aborted_transactions_among_what_it_returns() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await write(world, ONE)  # 0
        await write(world, OTHER)  # 1
        await end(world, OTHER, commit=False)  # 2
        await end(world, ONE, commit=True)  # 3
        await write(world, ONE, 1)  # 4
        await end(world, ONE, commit=False)  # 5
        assert await fetched(peer, 0) == ([0, 1, 2, 3, 4, 5], [(OTHER, 1), (ONE, 4)], 6, 6)
        assert await fetched(peer, 0, READ_UNCOMMITTED) == ([0, 1, 2, 3, 4, 5], None, 6, 6)
        assert await fetched(peer, 3) == ([3, 4, 5], [(ONE, 4)], 6, 6)
        assert await fetched(peer, 0, most=200) == ([0], [], 6, 6)
        assert await fetched(peer, 5) == ([5], [(ONE, 4)], 6, 6)

    in_virtual_time(steps)


@pytest.mark.parametrize("in_session", [False, True])
def test_a_fetch_waits_for_the_end_of_a_transaction(in_session: bool) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await write(world, ONE)
        session_id, epoch = 0, -1
        if in_session:
            opened = await peer.ask(request(0, READ_COMMITTED, epoch=0), 12, FetchResponse)
            session_id, epoch = opened.session_id, 1
            assert session_id
        asked = request(0, READ_COMMITTED, wait_ms=30_000, epoch=epoch)
        asked.session_id = session_id
        peer.send(asked, 12)
        await eventually(lambda: world.broker.waiting_fetches.count == 1)
        await write(world, None)
        assert world.broker.waiting_fetches.count == 1, "the record is behind an open transaction"
        await end(world, ONE, commit=False)
        [topic] = (await peer.answer(FetchResponse)).responses
        [data] = topic.partitions
        assert offsets(data.records) == [0, 1, 2]
        assert [one.first_offset for one in data.aborted_transactions or ()] == [0]

    in_virtual_time(steps)


def test_in_a_session_records_behind_an_open_transaction_are_not_skipped() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await write(world, ONE)
        for _ in range(3):
            await write(world, None)
        opened = await peer.ask(request(0, READ_UNCOMMITTED, most=200, epoch=0), 12, FetchResponse)
        told = offsets(opened.responses[0].partitions[0].records)
        for epoch in (1, 2, 3):
            asked = request(epoch, READ_UNCOMMITTED, most=200, epoch=epoch)
            asked.session_id = opened.session_id
            answer = await peer.ask(asked, 12, FetchResponse)
            told += [at for topic in answer.responses for data in topic.partitions for at in offsets(data.records)]
        assert told == [0, 1, 2, 3]

    in_virtual_time(steps)


def test_in_a_session_a_partition_that_found_no_room_is_read_next_also_behind_an_open_transaction() -> None:
    # The client names only partitions whose offset has changed, so the broker must not take this one for idle.
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 2)
        for number in range(2):
            log = world.broker.partition("t", number)
            assert log is not None
            records = [Record(0, NOW, None, b"x" * 100)]
            batch = encode_batch(records, producer_id=ONE, producer_epoch=0, base_sequence=0, transactional=True)
            log.append(batch, log.leader_epoch)
        await durable(world)
        asked = request(0, READ_UNCOMMITTED, epoch=0)
        asked.max_bytes = 1
        asked.topics[0].partitions.append(FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1 << 20))
        opened = await peer.ask(asked, 12, FetchResponse)
        told = {data.partition_index: offsets(data.records) for data in opened.responses[0].partitions}
        assert told == {0: [0], 1: []}
        asked = request(1, READ_UNCOMMITTED, epoch=1)
        asked.session_id = opened.session_id
        [topic] = (await peer.ask(asked, 12, FetchResponse)).responses
        assert [(data.partition_index, offsets(data.records)) for data in topic.partitions] == [(1, [0])]

    in_virtual_time(steps)


def test_offsets_are_looked_up_before_the_first_open_transaction() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await write(world, None)
        await write(world, ONE)
        await write(world, None)

        async def look_up(timestamp: int, isolation: int) -> int:
            wanted = [ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
            topics = [ListOffsetsTopic(name="t", partitions=wanted)]
            answer = await peer.ask(
                ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics), 7, ListOffsetsResponse
            )
            [found] = answer.topics[0].partitions
            assert found.error_code == 0
            return int(found.offset)

        for timestamp, uncommitted, committed in [
            (-1, 3, 1),
            (-2, 0, 0),
            (-3, 2, -1),
            (NOW, 0, 0),
            (NOW + 1, 1, -1),
            (NOW + 3, -1, -1),
        ]:
            assert await look_up(timestamp, READ_UNCOMMITTED) == uncommitted
            assert await look_up(timestamp, READ_COMMITTED) == committed
        await end(world, ONE, commit=True)
        assert await look_up(-1, READ_COMMITTED) == 4
        assert await look_up(-3, READ_COMMITTED) == 2

    in_virtual_time(steps)
