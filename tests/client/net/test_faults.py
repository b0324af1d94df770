"""Connections that break and calls that are cancelled, at any moment: nothing is lost, nothing is left."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kohort import Admin, Cluster, Consumer, Membership, Producer, TopicPartition
from kohort.client import KohortError, MembershipKeywords
from tests.client.conftest import NewTopicName, eventually
from tests.interop.broker import Broker

COOPERATIVE: MembershipKeywords = {
    "partition_assignment_strategy": "cooperative-sticky",
    "heartbeat_interval_ms": 100,
    # A member id whose answer got lost holds rebalances up until its session would have ended: Kafka's own weakness.
    "session_timeout_ms": 6_000,
}


async def break_connections(clusters: list[Cluster], seed: int, broken: list[None]) -> None:
    """Break one after the other, whatever it is doing."""
    dice = random.Random(seed)
    while True:
        await asyncio.sleep(dice.uniform(0.001, 0.03))  # at any moment, the point of these tests
        connections = [connection for cluster in clusters for connection in cluster.connections]
        if connections:
            dice.choice(connections).abort("broken on purpose")
            broken.append(None)


@pytest.mark.parametrize("seed", range(3))
async def test_every_record_is_processed_once_although_connections_break(
    any_broker: Broker, protocol: dict[str, Any], new_topic: NewTopicName, fresh: str, seed: int
) -> None:
    partitions, total = 4, 4_000
    topic = await new_topic(partitions)
    counted: Counter[bytes | None] = Counter()
    quick: dict[str, Any] = {"reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 20, "retry_backoff_ms": 5}

    async def produce(producer: Producer) -> None:
        sent = []
        for n in range(total):
            sent.append(await producer.send(topic, b"%d" % n, partition=n % partitions))
            if n % 50 == 0:
                await asyncio.sleep(0.01)  # a trickle, so that connections break while records are on their way
        for delivery in sent:
            await delivery

    async def consume(consumer: Consumer) -> None:
        async def revoked(gone: frozenset[TopicPartition]) -> None:
            positions = consumer.positions()
            await consumer.commit({partition: positions[partition] for partition in gone if partition in positions})

        consumer.subscribe([topic], on_revoked=revoked)
        while counted.total() < total:
            counted.update(record.value for record in await consumer.poll(50, timeout=0.05))

    group: dict[str, Any] = {"group_id": fresh, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumers = [Consumer(bootstrap_servers=any_broker.bootstrap, **protocol, **group, **quick) for _ in range(3)]
    producer = Producer(bootstrap_servers=any_broker.bootstrap, **quick)
    clusters = [producer.cluster, *(consumer.cluster for consumer in consumers)]
    broken: list[None] = []
    breaking = asyncio.ensure_future(break_connections(clusters, seed, broken))
    try:
        async with asyncio.timeout(60):
            await asyncio.gather(produce(producer), *(consume(consumer) for consumer in consumers))
    finally:
        breaking.cancel()
        await asyncio.gather(*(consumer.close() for consumer in consumers), producer.close())
    assert set(counted.values()) == {1}
    assert len(counted) == total
    assert len(broken) > 20


async def cancelled_everywhere(call: Callable[[], Awaitable[object]], steps: int = 150) -> int:
    """Run it again and again, each time cancelled a little later, until it ends by itself; how often that took.

    First by turns of the loop, then by time: no event says how far the answers of a broker have come.
    """
    for step in range(steps):
        task = asyncio.ensure_future(call())
        if step < 20:
            for _ in range(step):
                await asyncio.sleep(0)
        else:
            await asyncio.sleep((step - 20) * 0.0007)
        if task.done():
            await task
            return step
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            continue
        except KohortError:
            continue
        return step
    return steps


async def test_joining_can_be_cancelled_anywhere(any_broker: Broker, new_topic: NewTopicName, fresh: str) -> None:
    topic = await new_topic(2)

    async def join() -> None:
        async with Cluster.of(any_broker.bootstrap) as cluster:
            member = await Membership.join(cluster, fresh, [topic], COOPERATIVE)
            await member.leave()

    assert await cancelled_everywhere(join) > 5
    async with Cluster.of(any_broker.bootstrap) as cluster, Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        member = await Membership.join(cluster, fresh, [topic], COOPERATIVE)
        await eventually(lambda: len(member.assignment) == 2)  # no ghost of a cancelled one holds a partition
        assert len((await admin.describe_groups([fresh]))[fresh].members) == 1
        await member.leave()


async def test_producing_can_be_cancelled_anywhere(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic()

    async def produce() -> None:
        async with Producer(bootstrap_servers=any_broker.bootstrap, linger_ms=0) as producer:
            await (await producer.send(topic, b"x"))

    assert await cancelled_everywhere(produce) > 5


async def test_consuming_can_be_cancelled_anywhere(any_broker: Broker, new_topic: NewTopicName, fresh: str) -> None:
    topic = await new_topic()
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        await producer.send(topic, b"x")

    async def consume() -> None:
        options: dict[str, Any] = {"group_id": fresh, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with Consumer(topic, bootstrap_servers=any_broker.bootstrap, **COOPERATIVE, **options) as consumer:
            while not await consumer.poll():
                pass
            await consumer.commit({})

    assert await cancelled_everywhere(consume) > 5
    async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        assert (await admin.describe_groups([fresh]))[fresh].members == ()
