"""A broker inside the test's event loop, and connections to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.log import LogStore
from tests.broker.peer import Peer

QUICK = {"group.initial.rebalance.delay.ms": "0", "group.heartbeat.hold.ms": "0", "group.disconnect.grace.ms": "0"}
"""No waiting: a peer of these tests sends a heartbeat and waits for its answer, as if it came from Kafka;
those that keep no connection are members all the same."""


Connect = Callable[[], Awaitable[Peer]]


class MakeBroker(Protocol):
    """Starts a broker, with a store of the test's own if it gives one."""

    async def __call__(self, options: BrokerOptions, store: LogStore | None = None) -> Broker: ...


@pytest.fixture
async def start_broker() -> AsyncIterator[MakeBroker]:
    """Starts brokers that are stopped when the test ends."""
    brokers: list[Broker] = []

    async def start(options: BrokerOptions, store: LogStore | None = None) -> Broker:
        broker = Broker(options, store)
        await broker.start()
        brokers.append(broker)
        return broker

    yield start
    for broker in brokers:
        await broker.stop()


@pytest.fixture
async def broker(start_broker: MakeBroker) -> Broker:
    """A broker in memory whose groups start without delay."""
    return await start_broker(BrokerOptions(port=0, settings=QUICK))


@pytest.fixture
async def connect(broker: Broker) -> AsyncIterator[Connect]:
    """Opens connections to `broker` that are closed when the test ends."""
    writers: list[asyncio.StreamWriter] = []

    async def open_one() -> Peer:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        writers.append(writer)
        return Peer(reader, writer)

    yield open_one
    for writer in writers:
        writer.close()


@pytest.fixture
async def peer(connect: Connect) -> Peer:
    """One connection to `broker`."""
    return await connect()
