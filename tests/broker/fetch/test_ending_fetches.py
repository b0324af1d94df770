"""A fetch that waits is answered soon when its client has just learned what else to read."""

import asyncio

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from tests.broker.conftest import Connect, MakeBroker
from tests.broker.peer import Peer, talking_to, until

HOUR = 3_600_000


@pytest.fixture
async def broker(start_broker: MakeBroker) -> Broker:
    made = await start_broker(BrokerOptions(port=0))
    made.topics.create("orders", 2)
    return made


async def fetches(broker: Broker, peer: Peer, client_id: str, max_wait_ms: int = HOUR) -> None:
    """Send a fetch that waits for records."""
    place = FetchPartition(partition=0, partition_max_bytes=1_000)
    topics = [FetchTopic(topic="orders", partitions=[place])]
    before = broker.waiting_fetches.count
    peer.send(FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics), 4, client_id)
    await until(lambda: broker.waiting_fetches.count == before + 1)


async def asks_where_to_begin(peer: Peer, client_id: str) -> None:
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[1])]
    peer.send(OffsetFetchRequest(group_id="g", topics=topics), 5, client_id)
    await peer.answer(OffsetFetchResponse)


async def test_a_client_that_asks_for_a_starting_offset_can_fetch_soon(broker: Broker, connect: Connect) -> None:
    fetching, asking = await connect(), await connect()
    await fetches(broker, fetching, "a")
    await asks_where_to_begin(asking, "a")
    answer = await fetching.answer(FetchResponse)
    assert [(p.partition_index, p.records) for t in answer.responses for p in t.partitions] == [(0, b"")]
    assert not broker.waiting_fetches.count


async def test_other_clients_wait_on(broker: Broker, connect: Connect) -> None:
    mine, others, asking = await connect(), await connect(), await connect()
    await fetches(broker, mine, "a")
    await fetches(broker, others, "b")
    await asks_where_to_begin(asking, "a")
    await mine.answer(FetchResponse)
    assert broker.waiting_fetches.count == 1


async def test_with_holds_off_a_fetch_waits_as_in_kafka(start_broker: MakeBroker) -> None:
    plain = await start_broker(BrokerOptions(port=0, settings={"group.heartbeat.hold.ms": "0"}))
    plain.topics.create("orders", 2)
    async with talking_to(plain) as fetching, talking_to(plain) as asking:
        began = asyncio.get_running_loop().time()
        await fetches(plain, fetching, "a", max_wait_ms=200)
        await asks_where_to_begin(asking, "a")
        await fetching.answer(FetchResponse)
        assert asyncio.get_running_loop().time() - began >= 0.2


async def test_of_the_fetches_of_a_crowd_with_one_name_a_few_end_early(broker: Broker, connect: Connect) -> None:
    # All clients on a host may have the same ID, and each ends the fetches of all.
    asking = await connect()
    for _ in range(10):
        await fetches(broker, await connect(), "a")
    await asks_where_to_begin(asking, "a")
    await until(lambda: broker.waiting_fetches.count < 10)
    assert broker.waiting_fetches.count == 2
