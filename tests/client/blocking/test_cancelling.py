"""A call that is cancelled at any of its awaits leaves nothing behind, neither here nor in the group."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest

from kohort import (
    Admin,
    Cluster,
    Consumer,
    Membership,
    NewTopic,
    OffsetSpec,
    Producer,
    TopicPartition,
)
from kohort.client import ClosedError, ConfigKind, MembershipKeywords
from tests.client.conftest import NewTopicName, eventually
from tests.interop.broker import Broker


class CancelledAtAwait:
    """Runs a coroutine and cancels the task it is in when that waits for the nth time."""

    def __init__(self, work: Coroutine[Any, Any, object], nth: int) -> None:
        self.reached = False
        self._work = work
        self._nth = nth

    def __await__(self) -> Generator[Any, Any, object]:
        steps = self._work.__await__()
        waits, sent, thrown = 0, None, None
        while True:
            try:
                waited_for = steps.send(sent) if thrown is None else steps.throw(thrown)
            except StopIteration as end:
                return end.value
            waits += 1
            if waits == self._nth:
                self.reached = True
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            sent, thrown = None, None
            try:
                sent = yield waited_for
            except BaseException as problem:  # noqa: BLE001  thrown into the coroutine, as a task does
                thrown = problem


async def cancelled_at_every_await(call: Callable[[], Coroutine[Any, Any, object]]) -> int:
    """Run it again and again, each time cancelled one await later, until it has no more of them; how many it has."""
    nth = 1
    while True:
        cancelling = CancelledAtAwait(call(), nth)

        async def run(cancelling: CancelledAtAwait = cancelling) -> None:
            await cancelling

        task = asyncio.ensure_future(run())
        try:
            await task
        except asyncio.CancelledError:
            assert cancelling.reached
        if not cancelling.reached:
            return nth - 1
        nth += 1


def left_over() -> list[str]:
    return [repr(task) for task in asyncio.all_tasks() if task.get_name().startswith("kohort")]


async def until_nobody_is_left(admin: Admin, group_id: str) -> None:
    """A member that was cancelled before it left is removed when its session expires."""
    async with asyncio.timeout(20):
        while (await admin.describe_groups([group_id]))[group_id].members:  # noqa: ASYNC110  the broker tells nobody
            await asyncio.sleep(0.05)


async def test_joining_committing_and_leaving(
    any_broker: Broker,
    protocol: MembershipKeywords,
    new_topic: NewTopicName,
    fresh: str,
    admin: Admin,
) -> None:
    topic = await new_topic(2)
    clusters: list[Cluster] = []

    async def work() -> None:
        async with Cluster.of(any_broker.bootstrap) as cluster:
            clusters.append(cluster)
            member = await Membership.join(cluster, fresh, [topic], protocol)
            try:
                await member.commit(dict.fromkeys(member.assignment, 1))
            finally:
                await member.leave()

    assert await cancelled_at_every_await(work) >= 3
    assert left_over() == []
    assert not any(cluster.connections for cluster in clusters)
    await until_nobody_is_left(admin, fresh)


async def test_consuming_and_closing(
    any_broker: Broker,
    protocol: MembershipKeywords,
    new_topic: NewTopicName,
    fresh: str,
    admin: Admin,
) -> None:
    topic = await new_topic(1)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        await (await producer.send(topic, b"x"))
    consumers: list[Consumer] = []

    async def work() -> None:
        async with Consumer(
            topic, bootstrap_servers=any_broker.bootstrap, group_id=fresh, auto_offset_reset="earliest", **protocol
        ) as consumer:
            consumers.append(consumer)
            for _ in range(3):
                await consumer.poll(timeout=0.2)
            await consumer.unsubscribe()

    assert await cancelled_at_every_await(work) >= 3
    assert left_over() == []
    assert not any(consumer.cluster.connections for consumer in consumers)
    await until_nobody_is_left(admin, fresh)


async def test_producing_and_closing(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(1)
    producers: list[Producer] = []
    written: list[int] = []

    async def work() -> None:
        async with Producer(bootstrap_servers=any_broker.bootstrap, linger_ms=0) as producer:
            producers.append(producer)
            delivery = await producer.send(topic, b"x")
            await producer.flush()
            written.append((await delivery).offset)
            await (await producer.send(topic, b"y"))

    assert await cancelled_at_every_await(work) >= 3
    assert left_over() == []
    assert not any(producer.cluster.connections for producer in producers)
    assert written == sorted(set(written))


async def test_administering_and_closing(any_broker: Broker, fresh: str) -> None:
    admins: list[Admin] = []
    numbers = itertools.count()

    async def work() -> None:
        name = f"{fresh}-{next(numbers)}"
        async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
            admins.append(admin)
            await admin.create_topics([NewTopic(name, 1)])
            await admin.describe_configs(ConfigKind.TOPIC, name)
            await admin.list_offsets({TopicPartition(name, 0): OffsetSpec.LATEST})
            await admin.alter_group_offsets(name, {TopicPartition(name, 0): 0})
            await admin.group_lag(name)
            await admin.delete_groups([name])
            await admin.delete_topics([name])

    assert await cancelled_at_every_await(work) >= 7
    assert left_over() == []
    assert not any(admin._cluster.connections for admin in admins)


async def test_closing_twice_in_a_callback_and_while_closing(
    any_broker: Broker, protocol: dict[str, Any], new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(1)
    consumer = Consumer(bootstrap_servers=any_broker.bootstrap, group_id=fresh, **protocol)

    async def close(_: object) -> None:
        await consumer.close()

    consumer.subscribe([topic], on_assigned=close, on_revoked=close)
    with pytest.raises(ClosedError):
        async with asyncio.timeout(20):
            while True:
                await consumer.poll(timeout=0.1)
    await asyncio.gather(consumer.close(), consumer.close())
    await eventually(lambda: left_over() == [])
