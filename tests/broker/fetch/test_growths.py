"""A client that reads a topic is told once that it has more partitions."""

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.broker.conftest import QUICK, Connect, MakeBroker
from tests.broker.peer import Peer, until

HOLDS = {**QUICK, "group.heartbeat.hold.ms": "9000"}


@pytest.fixture
async def broker(start_broker: MakeBroker) -> Broker:
    broker = await start_broker(BrokerOptions(port=0, settings=HOLDS))
    broker.topics.create("orders", 2)
    return broker


def fetch(max_wait_ms: int = 0, session_epoch: int = -1, session_id: int = 0) -> FetchRequest:
    """Of both partitions, or within a session of what it has."""
    wanted = [FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20) for number in (0, 1)]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic="orders", partitions=wanted)] if session_epoch <= 0 else [],
    )


def codes(answer: FetchResponse) -> dict[int, ErrorCode]:
    return {
        partition.partition_index: ErrorCode(partition.error_code)
        for topic in answer.responses
        for partition in topic.partitions
    }


async def grow(peer: Peer) -> None:
    more = CreatePartitionsTopic(name="orders", count=4, assignments=None)
    request = CreatePartitionsRequest(topics=[more], timeout_ms=1_000)
    [result] = (await peer.ask(request, 3, CreatePartitionsResponse)).results
    assert result.error_code == ErrorCode.NONE


async def test_a_waiting_fetch_is_answered_with_the_error_at_once_and_the_next_as_usual(
    broker: Broker, connect: Connect
) -> None:
    reader, admin = await connect(), await connect()
    reader.send(fetch(max_wait_ms=15_000), 12)
    await until(lambda: broker.waiting_fetches.count == 1)
    await grow(admin)
    told = codes(await reader.answer(FetchResponse))
    assert sorted(told.values()) == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert set(codes(await reader.ask(fetch(), 12, FetchResponse)).values()) == {ErrorCode.NONE}


async def test_the_next_fetch_of_a_session_gets_the_error(broker: Broker, connect: Connect) -> None:
    reader, admin = await connect(), await connect()
    began = await reader.ask(fetch(session_epoch=0), 12, FetchResponse)
    assert began.session_id
    await grow(admin)
    told = codes(await reader.ask(fetch(session_epoch=1, session_id=began.session_id), 12, FetchResponse))
    assert list(told.values()) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    after = codes(await reader.ask(fetch(session_epoch=2, session_id=began.session_id), 12, FetchResponse))
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER not in after.values()


async def test_a_client_that_connects_later_gets_no_error(broker: Broker, connect: Connect) -> None:
    await grow(await connect())
    later = await connect()
    assert set(codes(await later.ask(fetch(), 12, FetchResponse)).values()) == {ErrorCode.NONE}


async def test_a_client_that_names_topics_by_their_ids_gets_the_error(broker: Broker, connect: Connect) -> None:
    reader, topic = await connect(), broker.topics.named("orders")
    assert topic is not None
    by_id = fetch()
    for each in by_id.topics:
        each.topic, each.topic_id = "", topic.topic_id
    await grow(await connect())
    told = codes(await reader.ask(by_id, 13, FetchResponse))
    assert sorted(told.values()) == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_a_client_that_connects_between_two_growths_is_told_of_the_second_only(
    broker: Broker, connect: Connect
) -> None:
    others = broker.topics.create("others", 1)
    await grow(await connect())
    later = await connect()
    broker.grow_topic(others, 2)
    assert broker.new_partitions.count == 2
    assert set(codes(await later.ask(fetch(), 12, FetchResponse)).values()) == {ErrorCode.NONE}


async def test_nor_is_anybody_where_heartbeats_are_not_held(start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings=QUICK))
    topic = broker.topics.create("orders", 2)
    broker.grow_topic(topic, 4)
    assert broker.new_partitions.count == 0
