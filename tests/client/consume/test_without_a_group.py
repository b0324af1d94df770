"""A consumer that subscribes without a group reads all partitions of its topics; and iteration with an end."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from kohort import (
    Admin,
    ConfigError,
    Consumer,
    ConsumerRecord,
    KohortError,
    NewTopic,
    Producer,
    SubscriptionPattern,
    TopicPartition,
    blocking,
)
from tests.client.conftest import NewTopicName, eventually
from tests.interop.broker import Broker


def options_of(broker: Broker, **options: Any) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap, "auto_offset_reset": "earliest", **options}


async def fill(broker: Broker, topic: str, partitions: int, values: range) -> None:
    async with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for n in values:
            await producer.send(topic, b"%d" % n, partition=n % partitions)


async def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(20):
        while len(records) < count:
            records += await consumer.poll()
    return records


async def test_all_partitions_are_read_and_nothing_is_committed(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(3)
    await fill(any_broker, topic, 3, range(30))
    for _ in range(2):
        async with Consumer(topic, **options_of(any_broker)) as consumer:
            records = await take(consumer, 30)
            assert consumer.assignment == {TopicPartition(topic, n) for n in range(3)}
            assert consumer.subscription == {topic}
            assert (consumer.member_id, consumer.generation) == ("", None)
            assert sorted(int(record.value) for record in records) == list(range(30))
            with pytest.raises(ConfigError, match="group_id is missing"):
                await consumer.commit()


async def test_partitions_and_topics_that_are_added_are_read(
    any_broker: Broker, admin: Admin, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(1)
    pattern = re.compile(f"{fresh}-.*")
    async with Consumer(**options_of(any_broker, metadata_max_age_ms=200)) as consumer:
        consumer.subscribe(pattern)
        await eventually(lambda: consumer.assignment == {TopicPartition(topic, 0)})
        await admin.create_partitions(topic, 2)
        await admin.create_topics([NewTopic(f"{fresh}-later", 1)])
        everything = {TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(f"{fresh}-later", 0)}
        await eventually(lambda: consumer.assignment == everything)
        await fill(any_broker, topic, 2, range(4))
        await fill(any_broker, f"{fresh}-later", 1, range(4, 6))
        assert sorted(int(record.value) for record in await take(consumer, 6)) == list(range(6))
        assert consumer.subscription == {topic, f"{fresh}-later"}


async def test_another_subscription_replaces_it_and_unsubscribing_ends_it(
    any_broker: Broker, new_topic: NewTopicName
) -> None:
    first, second = await new_topic(1), await new_topic(1)
    async with Consumer(first, **options_of(any_broker)) as consumer:
        await eventually(lambda: consumer.assignment == {TopicPartition(first, 0)})
        consumer.subscribe([second])
        await eventually(lambda: consumer.assignment == {TopicPartition(second, 0)})
        with pytest.raises(KohortError, match="the consumer has subscribed, which excludes assign"):
            consumer.assign([TopicPartition(first, 0)])
        await consumer.unsubscribe()
        assert (consumer.assignment, consumer.subscription) == (frozenset(), frozenset())
        with pytest.raises(KohortError, match="neither subscribed nor been assigned"):
            await consumer.poll()
        consumer.assign([TopicPartition(first, 0)])
        with pytest.raises(KohortError, match="partitions were assigned manually"):
            consumer.subscribe([second])


async def test_only_a_group_has_callbacks_and_patterns_of_the_broker(kohort_broker: Broker) -> None:
    async with Consumer(**options_of(kohort_broker)) as consumer:
        with pytest.raises(ConfigError, match="only a member of a group has callbacks"):
            consumer.subscribe(["t"], on_revoked=print)
        with pytest.raises(ConfigError):
            consumer.subscribe(SubscriptionPattern("t.*"))


async def test_iteration_ends_after_the_timeout_and_can_go_on(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(1)
    await fill(any_broker, topic, 1, range(3))
    async with Consumer(topic, **options_of(any_broker, consumer_timeout_ms=1_000)) as consumer, asyncio.timeout(20):
        assert [int(record.value) async for record in consumer] == [0, 1, 2]
        await fill(any_broker, topic, 1, range(3, 5))
        assert [int(record.value) async for record in consumer] == [3, 4]


def test_blocking_iteration_ends_after_the_timeout_and_can_go_on(kohort_broker: Broker, fresh: str) -> None:
    with (
        blocking.Producer(bootstrap_servers=kohort_broker.bootstrap) as producer,
        blocking.Consumer(fresh, **options_of(kohort_broker, consumer_timeout_ms=1_000)) as consumer,
    ):
        for n in range(3):
            producer.send(fresh, b"%d" % n)
        producer.flush()
        assert [int(record.value) for record in consumer] == [0, 1, 2]
        producer.send(fresh, b"3").result()
        assert [int(record.value) for record in consumer] == [3]
        assert consumer.highwater(TopicPartition(fresh, 0)) == 4
        assert fresh in consumer.topics()


async def test_the_high_watermark_is_known_after_a_fetch(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(1)
    here = TopicPartition(topic, 0)
    await fill(any_broker, topic, 1, range(7))
    async with Consumer(**options_of(any_broker)) as consumer:
        consumer.assign([here])
        assert consumer.highwater(here) is None
        await take(consumer, 7)
        assert consumer.highwater(here) == 7
        assert {topic} <= await consumer.topics()
        with pytest.raises(KohortError, match="is not assigned"):
            consumer.highwater(TopicPartition(topic, 1))
