"""Members whose coordinator does not hold heartbeats learn of a rebalance at once, because the gateway holds them.

Heartbeats are a minute apart, and a test lasts at most as long: without the gateway no rebalance ends.
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
SETTINGS = {
    "group.heartbeat.hold.ms": "0",
    "group.consumer.max.heartbeat.interval.ms": "60000",
    "group.consumer.heartbeat.interval.ms": "60000",
    "group.consumer.max.session.timeout.ms": "200000",
    "group.consumer.session.timeout.ms": "180000",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
async def gateway(broker: Broker) -> AsyncIterator[Gateway]:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    async with Gateway(GatewayOptions([Address(host, int(port))], Address("127.0.0.1", 0))) as gateway:
        yield gateway


@asynccontextmanager
async def member(gateway: Gateway, group: str, topic: str) -> AsyncIterator["Member"]:
    async with Member(
        topic, group_id=group, group_protocol="consumer", bootstrap_servers=str(gateway.address)
    ) as consumer:
        processing = asyncio.create_task(_process(consumer))
        try:
            yield consumer
        finally:
            processing.cancel()


class Member(Consumer):
    """Consumer that tells when it has polled: its assignment may have changed."""

    def __init__(self, *topics: str, **options: Unpack[ConsumerKeywords]) -> None:
        super().__init__(*topics, **options)
        self.polled = asyncio.Event()


async def _process(consumer: Member) -> None:
    while True:
        await consumer.poll(timeout=0.05)
        consumer.polled.set()


async def shared(members: "list[Member]", shares: list[int]) -> None:
    while sorted(len(member.assignment) for member in members) != shares:
        members[0].polled.clear()
        await members[0].polled.wait()
    owned = [partition for member in members for partition in member.assignment]
    assert len(set(owned)) == len(owned)


async def test_partitions_move_at_once_when_members_join_and_leave(broker: Broker, gateway: Gateway) -> None:
    broker.create_topic("t12", partitions=12)
    async with AsyncExitStack() as stack:
        members = []
        for shares in ([12], [6, 6], [4, 4, 4], [3, 3, 3, 3]):
            members.append(await stack.enter_async_context(member(gateway, "joining", "t12")))
            await shared(members, shares)
        last = await stack.enter_async_context(AsyncExitStack())
        leaving = await last.enter_async_context(member(gateway, "joining", "t12"))
        await shared([*members, leaving], [2, 2, 2, 3, 3])
        await last.aclose()
        await shared(members, [3, 3, 3, 3])


async def test_commits_while_partitions_move_lose_nothing(broker: Broker, gateway: Gateway) -> None:
    broker.create_topic("t6", partitions=6)
    async with member(gateway, "committing", "t6") as first:
        await shared([first], [6])
        committing = asyncio.create_task(_commit(first))
        async with member(gateway, "committing", "t6") as second:
            await shared([first, second], [3, 3])
        await shared([first], [6])
        committing.cancel()


async def _commit(consumer: Consumer) -> None:
    while True:
        await consumer.commit()
        await asyncio.sleep(0)
