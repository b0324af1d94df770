"""Members of classic groups whose coordinator does not hold heartbeats learn of a rebalance at once.

A heartbeat follows the last after five seconds. So whatever happens within a second after all heartbeats are held is
the work of the gateway.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Unpack

import pytest

from kohort.client import Consumer
from kohort.client.keywords import ConsumerKeywords
from kohort.gateway import Address, Gateway, GatewayOptions
from kohort.testing import Broker

pytestmark = pytest.mark.timeout(55)
SETTINGS = {"group.heartbeat.hold.ms": "0", "group.disconnect.grace.ms": "0", "group.initial.rebalance.delay.ms": "0"}
INTERVAL_S = 5.0
AT_ONCE_S = 2.0
"""Includes the 0.3 s in which the room waits for more new members, and a machine that does something else."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        broker.create_topic("t12", partitions=12)
        yield broker


@pytest.fixture
async def gateway(broker: Broker) -> AsyncIterator[Gateway]:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    async with Gateway(GatewayOptions([Address(host, int(port))], Address("127.0.0.1", 0))) as gateway:
        yield gateway


class Member(Consumer):
    """Consumer that tells when it has polled: its assignment may have changed."""

    def __init__(self, *topics: str, **options: Unpack[ConsumerKeywords]) -> None:
        super().__init__(*topics, **options)
        self.polled = asyncio.Event()


@asynccontextmanager
async def member(gateway: Gateway, group: str, assignor: str) -> AsyncIterator[Member]:
    async with Member(
        "t12",
        group_id=group,
        partition_assignment_strategy=assignor,
        heartbeat_interval_ms=int(INTERVAL_S * 1000),
        enable_auto_commit=False,
        bootstrap_servers=str(gateway.address),
    ) as consumer:
        processing = asyncio.create_task(_process(consumer))
        try:
            yield consumer
        finally:
            processing.cancel()


async def _process(consumer: Member) -> None:
    while True:
        await consumer.poll(timeout=0.05)
        consumer.polled.set()


async def shared(members: list[Member], shares: list[int]) -> None:
    while sorted(len(member.assignment) for member in members) != shares:
        await next_poll(members[0])
    owned = [partition for member in members for partition in member.assignment]
    assert len(set(owned)) == len(owned)


async def next_poll(member: Member) -> None:
    member.polled.clear()
    await member.polled.wait()


async def all_held(gateway: Gateway, members: list[Member]) -> None:
    """Wait until the heartbeats of all members are held."""
    while gateway.groups.held < len(members):
        await next_poll(members[0])


@pytest.mark.parametrize("assignor", ["cooperative-sticky", "range"])
async def test_partitions_move_at_once_when_members_join_and_leave(gateway: Gateway, assignor: str) -> None:
    async with AsyncExitStack() as stack:
        members = []
        for shares in ([12], [6, 6], [4, 4, 4]):
            members.append(await stack.enter_async_context(member(gateway, assignor, assignor)))
            async with asyncio.timeout(AT_ONCE_S):
                await shared(members, shares)
            await all_held(gateway, members)
        last = await stack.enter_async_context(AsyncExitStack())
        leaving = await last.enter_async_context(member(gateway, assignor, assignor))
        async with asyncio.timeout(AT_ONCE_S):
            await shared([*members, leaving], [3, 3, 3, 3])
        await all_held(gateway, [*members, leaving])
        async with asyncio.timeout(AT_ONCE_S):
            await last.aclose()
            await shared(members, [4, 4, 4])
