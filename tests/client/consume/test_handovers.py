"""Arguments of rebalance callbacks: the partitions that are assigned or revoked, and their offsets."""

from __future__ import annotations

import asyncio
from typing import Any

from kohort import Consumer, Partitions, TopicPartition
from tests.client.conftest import NewTopicName
from tests.client.consume.test_consumer import fill
from tests.interop.broker import Broker

Told = list[tuple[str, dict[TopicPartition, int | None]]]


def member(broker: Broker, group: str, topic: str, told: Told, protocol: dict[str, Any], **options: Any) -> Consumer:
    """Listener that records the partitions and offsets of its calls."""

    def tells(what: str) -> Any:
        def tell(partitions: Partitions) -> None:
            assert partitions == frozenset(partitions.offsets)
            if partitions:
                told.append((what, dict(partitions.offsets)))

        return tell

    consumer = Consumer(
        bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False, **{**protocol, **options}
    )
    consumer.subscribe([topic], on_assigned=tells("won"), on_revoked=tells("gave up"), on_lost=tells("lost"))
    return consumer


async def polls(consumer: Consumer, told: Told, count: int) -> None:
    async with asyncio.timeout(20):
        while len(told) < count:
            await consumer.poll(timeout=0.05)


async def test_callbacks_receive_the_position_of_each_partition(
    any_broker: Broker, new_topic: NewTopicName, fresh: str, protocol: dict[str, Any]
) -> None:
    topic = await new_topic(2)
    zero, one = (TopicPartition(topic, n) for n in range(2))
    await fill(any_broker.bootstrap, topic, 20, 2)
    told: Told = []
    async with member(any_broker, fresh, topic, told, protocol, auto_offset_reset="earliest") as consumer:
        await polls(consumer, told, 1)
        assert told == [("won", {zero: None, one: None})]
        consumer.pause([one])
        while consumer.positions().get(zero) != 10:
            await consumer.poll(timeout=0.05)
        await consumer.commit({zero: 7})
        stands = consumer.positions()
    assert told[1:] == [("gave up", {zero: 10, one: stands[one]})]
    told.clear()
    async with member(any_broker, fresh, topic, told, protocol, auto_offset_reset="latest") as consumer:
        async with asyncio.timeout(20):
            while not (records := await consumer.poll(timeout=0.05)):
                pass
        assert told == [("won", {zero: 7, one: None})]
        assert [record.offset for record in records] == [7, 8, 9]
        assert await consumer.position(one) == 10


async def test_a_callback_that_seeks_needs_no_committed_offset(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    # With auto_offset_reset none a partition without an offset is an error; not while the application looks its own up.
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    await fill(any_broker.bootstrap, topic, 5)

    async def seeks(partitions: Partitions) -> None:
        assert partitions.offsets == {here: None}
        await asyncio.sleep(0.2)  # instead of a database
        consumer.seek(here, 3)

    consumer = Consumer(bootstrap_servers=any_broker.bootstrap, group_id=fresh, auto_offset_reset="none")
    consumer.subscribe([topic], on_assigned=seeks)
    async with consumer, asyncio.timeout(20):
        while not (records := await consumer.poll()):
            pass
        assert records[0].offset == 3
