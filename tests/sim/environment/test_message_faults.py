"""A fault of one message: its request or its response arrives late, or the response is lost with the connection."""

from __future__ import annotations

import asyncio

import pytest

from kohort.sim.environment.message_faults import UNHARMED, MessageFaults, RequestFate
from kohort.sim.steps import Effect
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.broker.peer import Peer, connected
from tests.broker.virtual import PORT, VirtualBroker, eventually, in_virtual_time

V = 5
LATE_S = 7.0


def create(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


async def created_and_answered(world: VirtualBroker, peer: Peer, name: str) -> tuple[float, float]:
    """Ask for a topic; return after how many seconds it exists, and after how many the answer is there."""
    began = world.loop.time()
    answer = asyncio.ensure_future(peer.ask(create(name), V, CreateTopicsResponse))
    while world.broker.topics.named(name) is None:  # noqa: ASYNC110  nothing tells of it
        await asyncio.sleep(0.001)
    created = world.loop.time()
    await answer
    return created - began, world.loop.time() - began


@pytest.mark.parametrize(
    ("effect", "created_s", "answered_s"),
    [(Effect.REQUEST_LATE, LATE_S, LATE_S), (Effect.RESPONSE_LATE, 0.0, LATE_S)],
)
def test_the_next_message_of_that_kind_is_late_and_no_other(
    effect: Effect, created_s: float, answered_s: float
) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.network.message_faults.add(effect, "CreateTopics", LATE_S)
        began = world.loop.time()
        await peer.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert world.loop.time() - began < 0.1
        found = await created_and_answered(world, peer, "struck")
        assert found == pytest.approx((created_s, answered_s), abs=0.1)
        found = await created_and_answered(world, peer, "spared")
        assert found == pytest.approx((0.0, 0.0), abs=0.1)

    in_virtual_time(steps)


def test_a_lost_response_is_that_of_a_request_that_was_executed_and_the_connection_is_lost_with_it() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.network.message_faults.add(Effect.RESPONSE_LOST, "CreateTopics", LATE_S)
        began = world.loop.time()
        peer.send(create("struck"), V)
        assert await peer.closed()
        assert world.loop.time() - began < 0.1
        assert world.broker.topics.named("struck") is not None
        async with connected(f"127.0.0.1:{PORT}") as next_peer:
            await created_and_answered(world, next_peer, "spared")

    in_virtual_time(steps)


def test_a_request_that_outlives_its_connection_arrives_late_and_then_its_end() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.network.message_faults.add(Effect.REQUEST_AFTER_CLOSE, "CreateTopics", LATE_S)
        began = world.loop.time()
        peer.send(create("struck"), V)
        assert await peer.closed()
        assert world.loop.time() - began < 0.1
        async with connected(f"127.0.0.1:{PORT}") as next_peer:
            await created_and_answered(world, next_peer, "spared")
            assert world.broker.topics.named("struck") is None
            await eventually(lambda: world.broker.topics.named("struck") is not None)
            assert world.loop.time() - began == pytest.approx(LATE_S, abs=0.1)
            await eventually(lambda: len(world.broker.sockets) == 1)

    in_virtual_time(steps)


def test_faults_strike_one_request_each_in_the_order_in_which_they_were_added() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        for effect in (Effect.RESPONSE_LATE, Effect.REQUEST_LATE):
            world.network.message_faults.add(effect, "CreateTopics", LATE_S)
        assert await created_and_answered(world, peer, "first") == pytest.approx((0.0, LATE_S), abs=0.1)
        assert await created_and_answered(world, peer, "second") == pytest.approx((LATE_S, LATE_S), abs=0.1)

    in_virtual_time(steps)


# Without a network

REQUEST = bytes(4) + CreateTopicsRequest.KEY.to_bytes(2, "big")


def test_no_message_is_struck_once_faults_are_cleared() -> None:
    faults = MessageFaults()
    for effect in (Effect.RESPONSE_LATE, Effect.REQUEST_LATE):
        faults.add(effect, "CreateTopics", LATE_S)
    assert not faults.is_idle
    faults.request(1, REQUEST)
    faults.clear()
    assert faults.is_idle
    assert (faults.response(1), faults.request(1, REQUEST)) == (0.0, UNHARMED)


def test_a_connection_whose_response_will_be_struck_takes_no_other_fault() -> None:
    faults = MessageFaults()
    for effect in (Effect.RESPONSE_LOST, Effect.REQUEST_LATE):
        faults.add(effect, "CreateTopics", LATE_S)
    assert [faults.request(end, REQUEST) for end in (1, 1, 3)] == [UNHARMED, UNHARMED, RequestFate(LATE_S)]
    assert (faults.response(3), faults.response(1)) == (0.0, -1.0)
    assert faults.response(1) == 0.0


def test_bytes_without_an_api_key_are_no_request() -> None:
    faults = MessageFaults()
    faults.add(Effect.REQUEST_LATE, "CreateTopics", LATE_S)
    assert (faults.request(1, REQUEST[:-1]), faults.request(1, REQUEST)) == (UNHARMED, RequestFate(LATE_S))
