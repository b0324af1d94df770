"""The connections of one client: one for each broker and purpose, and delays after failures."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from kohort import ConcurrentUseError, ErrorCode, KafkaError
from kohort.client.blocking.loop import LoopThread
from kohort.client.net.connection import BrokerConnection
from kohort.client.net.connections import Connections, bootstrap_key
from kohort.client.options import ClientOptions
from kohort.requests import Broker
from kohort.wire.messages.metadata import MetadataRequest
from tests.client.conftest import eventually
from tests.client.peer import API_VERSIONS, METADATA, Peer, peer, supports
from tests.client.virtual_time import in_virtual_time

HOST = "127.0.0.1"
KEY = 7, ""


def made(**options: Any) -> Connections:
    return Connections(ClientOptions.read({"bootstrap_servers": "b:9092", "reconnect_backoff_ms": 1, **options}))


@asynccontextmanager
async def peers(count: int = 1, **options: Any) -> AsyncIterator[tuple[Connections, list[Peer]]]:
    async with AsyncExitStack() as stack:
        versions = supports(API_VERSIONS, METADATA), None
        started = [await stack.enter_async_context(peer(versions)) for _ in range(count)]
        connections = made(**options)
        yield connections, started
        await connections.close()


def broker(node_id: int, at: Peer) -> Broker:
    return Broker(node_id, HOST, at.port)


async def test_a_connection_is_opened_once_and_shared() -> None:
    async with peers() as (connections, [broker]):
        assert connections.usable(KEY) is None
        first, second = await asyncio.gather(*(connections.get(KEY, HOST, broker.port) for _ in range(2)))
        assert first is second is await connections.get(KEY, HOST, broker.port)
        assert connections.usable(KEY) is first
        other = await connections.get((7, "fetch"), HOST, broker.port)
        assert other is not first and connections.all == [first, other]
        assert len(broker.writers) == 2


async def test_a_caller_that_gives_up_does_not_stop_the_others() -> None:
    async with peers() as (connections, [broker]):
        callers = [asyncio.ensure_future(connections.get(KEY, HOST, broker.port)) for _ in range(2)]
        await asyncio.sleep(0)
        callers[0].cancel()
        assert (await callers[1]).open


async def test_a_connection_that_ended_is_replaced() -> None:
    async with peers() as (connections, [broker]):
        first = await connections.get(KEY, HOST, broker.port)
        first.abort("the test")
        assert connections.usable(KEY) is None  # already before the loop has called anything
        second = await connections.get(KEY, HOST, broker.port)
        assert second.open
        broker.writers[1].transport.abort()
        await second.closed
        await eventually(lambda: connections.all == [])
        third = await connections.get(KEY, HOST, broker.port)
        assert connections.all == [third]


async def test_a_broker_that_moved_to_another_address_is_connected_to_there() -> None:
    async with peers(2) as (connections, [one, other]):
        before = await connections.get(KEY, HOST, one.port)
        after = await connections.get(KEY, HOST, other.port)
        assert after.peer == (HOST, other.port) and connections.all == [after]
        assert "moved to another address" in (await before.closed).sentence
        await asyncio.sleep(0)
        assert connections.usable(KEY) is after


async def test_the_connection_to_a_bootstrap_address_becomes_that_of_its_broker() -> None:
    async with peers(3) as (connections, [one, other, third]):
        boots = [
            await connections.get(bootstrap_key(number), HOST, at.port) for number, at in enumerate((one, other, third))
        ]
        used = await connections.get((2, ""), HOST, other.port)
        fetching = await connections.get((2, "fetch"), HOST, other.port)
        await connections.settle_bootstrap([])
        assert set(connections.all) == {*boots, used, fetching}  # nothing is known yet
        await connections.settle_bootstrap([broker(1, one), broker(2, other)])
        assert connections.usable((1, "")) is boots[0]
        assert connections.usable((2, "")) is used
        assert set(connections.all) == {boots[0], used, fetching}
        assert [connection.open for connection in boots] == [True, False, False]
        boots[0].abort("the test")
        await eventually(lambda: connections.all == [used, fetching])


async def test_a_bootstrap_connection_that_is_in_use_or_was_lost_is_not_kept_as_a_brokers() -> None:
    async with peers(3) as (connections, [one, other, third]):
        busy = await connections.get(bootstrap_key(0), HOST, one.port)
        lost = await connections.get(bootstrap_key(1), HOST, other.port)
        idle = await connections.get(bootstrap_key(2), HOST, third.port)
        busy.send(MetadataRequest(topics=[])).add_done_callback(lambda done: done.exception())
        lost.abort("the test")
        await connections.settle_bootstrap([broker(1, one), broker(2, other), broker(3, third)])
        assert [connections.usable((number, "")) for number in (1, 2, 3)] == [None, None, idle]
        assert busy.open and busy in connections.all


async def test_an_address_whose_broker_is_not_known_is_none_of_the_brokers() -> None:
    keys = [bootstrap_key(number) for number in range(3)]
    assert len(set(keys)) == 3 and all(node_id < 0 for node_id, _ in keys)


async def test_closing_ends_every_connection_also_one_that_is_being_opened(caplog: pytest.LogCaptureFixture) -> None:
    async with peer() as silent, peers() as (connections, [broker]):
        connection = await connections.get(KEY, HOST, broker.port)
        opening = asyncio.ensure_future(connections.get((8, ""), HOST, silent.port))
        await eventually(lambda: bool(silent.asked))
        began = asyncio.get_running_loop().time()
        await connections.close()
        assert asyncio.get_running_loop().time() - began < 0.9
        assert not connection.open and connections.all == []
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("kohort-connect")]
        await asyncio.wait([opening])
        assert opening.cancelled()
        await asyncio.gather(broker.ended.wait(), silent.ended.wait())
        with pytest.raises(KafkaError, match="the client is closed"):
            await connections.get(KEY, HOST, broker.port)
    assert [record for record in caplog.records if record.name == "asyncio"] == []


async def test_closing_waits_for_the_end_of_what_was_being_opened() -> None:
    async with peer() as silent:
        connections = made()
        opening = asyncio.ensure_future(connections.get(KEY, HOST, silent.port))
        await eventually(lambda: bool(silent.asked))
        await connections.close()
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("kohort-connect")]
        await asyncio.wait([opening])


async def test_a_connection_that_opens_while_the_client_closes_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    connect, closing = BrokerConnection.connect, []

    async def connected(*address: Any, **options: Any) -> BrokerConnection:
        connection = await connect(*address, **options)
        closing.append(asyncio.ensure_future(connections.close()))
        return connection

    async with peers() as (connections, [broker]):
        monkeypatch.setattr(BrokerConnection, "connect", connected)
        connection = await connections.get(KEY, HOST, broker.port)
        await asyncio.gather(*closing)
        assert not connection.open and connections.all == []
        await broker.ended.wait()


def test_an_event_loop_may_be_closed_as_soon_as_its_client_is_closed() -> None:
    # Otherwise Python warns of transports that are not closed, which is an error here.
    async def start() -> asyncio.Server:
        return await asyncio.start_server(there.serve, HOST, 0)

    async def connect() -> Connections:
        connections = made()
        await connections.get(KEY, HOST, there.port)
        return connections

    there, thread = Peer([(supports(API_VERSIONS), None)]), LoopThread("peer")
    server = thread.call(start)
    there.port = int(server.sockets[0].getsockname()[1])
    loop = asyncio.new_event_loop()
    loop.run_until_complete(loop.run_until_complete(connect()).close())
    loop.close()
    gc.collect()
    thread.call(there.ended.wait)
    server.close()
    thread.stop()


async def test_another_event_loop_is_refused() -> None:
    async with peers() as (connections, [broker]):

        async def elsewhere() -> None:
            with pytest.raises(ConcurrentUseError):
                await connections.get(KEY, HOST, broker.port)

        await asyncio.to_thread(lambda: asyncio.run(elsewhere()))


# Delays, in virtual time, at brokers that refuse all connections but one


class Attempts:
    """Attempts to connect, whose outcome the test decides, and how long each takes."""

    def __init__(self, **options: Any) -> None:
        self.refused = True
        self.connections = made(**options)
        self.loop = asyncio.get_running_loop()

    async def connect(self, host: str, port: int, **options: object) -> BrokerConnection:
        if self.refused:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
        return BrokerConnection("test", 1_000)

    async def attempt(self, node_id: int = 7) -> float:
        """Seconds that an attempt takes."""
        began = self.loop.time()
        try:
            connection = await self.connections.get((node_id, ""), HOST, 9092)
        except KafkaError:
            assert self.refused
        else:
            assert not self.refused
            connection.connection_lost(None)
        return round(self.loop.time() - began, 6)


def attempts(
    monkeypatch: pytest.MonkeyPatch, steps: Callable[[Attempts], Coroutine[Any, Any, None]], **options: Any
) -> None:
    async def run() -> None:
        here = Attempts(**options)
        monkeypatch.setattr(BrokerConnection, "connect", here.connect)
        await steps(here)
        await here.connections.close()

    in_virtual_time(run)


def test_the_delay_doubles_with_each_failure_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps(here: Attempts) -> None:
        assert [await here.attempt() for _ in range(6)] == [0.0, 0.1, 0.2, 0.4, 0.5, 0.5]
        assert await here.attempt(8) == 0.0  # of another broker

    attempts(monkeypatch, steps, reconnect_backoff_ms=100, reconnect_backoff_max_ms=500)


def test_time_that_has_passed_since_the_failure_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps(here: Attempts) -> None:
        await here.attempt()
        await asyncio.sleep(0.03)
        assert await here.attempt() == 0.07
        await asyncio.sleep(5.0)
        assert await here.attempt() == 0.0

    attempts(monkeypatch, steps, reconnect_backoff_ms=100, reconnect_backoff_max_ms=500)


def test_a_success_ends_the_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps(here: Attempts) -> None:
        assert [await here.attempt() for _ in range(3)] == [0.0, 0.1, 0.2]
        here.refused = False
        assert [await here.attempt() for _ in range(2)] == [0.4, 0.0]
        here.refused = True
        assert [await here.attempt() for _ in range(2)] == [0.0, 0.1]

    attempts(monkeypatch, steps, reconnect_backoff_ms=100, reconnect_backoff_max_ms=500)
