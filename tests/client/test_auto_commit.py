"""Auto commits: what moved since the last one, and nothing else."""

from __future__ import annotations

import asyncio

from kohort import Consumer, TopicPartition
from tests.client.conftest import NewTopicName
from tests.client.test_consumer import consumer_of, fill, take
from tests.interop.broker import Broker
from tests.interop.mixed.offsets_log import java_hash


async def offset_of(consumer: Consumer, partition: TopicPartition) -> int | None:
    found = (await consumer.committed([partition]))[partition]
    return None if found is None else found.offset


async def polls_until_committed(consumer: Consumer, partition: TopicPartition, offset: int) -> None:
    async with asyncio.timeout(10):
        while await offset_of(consumer, partition) != offset:
            await consumer.poll(timeout=0.05)


async def test_an_idle_consumer_writes_no_commits(any_broker: Broker, new_topic: NewTopicName, fresh: str) -> None:
    # Each would be a record for each partition, for ever; Java's consumer writes them.
    topic = await new_topic(3)
    here = TopicPartition(topic, 0)
    await fill(any_broker.bootstrap, topic, 5)
    async with consumer_of(any_broker, topic, group_id=fresh, auto_commit_interval_ms=20) as consumer:
        await take(consumer, 5)
        await polls_until_committed(consumer, here, 5)
        count = await consumer.partitions_for("__consumer_offsets")
        log = TopicPartition("__consumer_offsets", java_hash(fresh) % count)
        await consumer.poll(timeout=0.1)
        before = await consumer.end_offsets([log])
        for _ in range(10):
            await consumer.poll(timeout=0.05)
        assert await consumer.end_offsets([log]) == before
        await fill(any_broker.bootstrap, topic, 1)
        await take(consumer, 1)
        await polls_until_committed(consumer, here, 6)
        assert (await consumer.end_offsets([log]))[log] == before[log] + 1


async def test_what_the_application_set_back_is_committed_again(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    await fill(any_broker.bootstrap, topic, 5)
    async with consumer_of(any_broker, topic, group_id=fresh, auto_commit_interval_ms=50) as consumer:
        await take(consumer, 5)
        await polls_until_committed(consumer, here, 5)
        await consumer.commit({here: 2})
        await polls_until_committed(consumer, here, 5)
