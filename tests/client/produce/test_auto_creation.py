"""A client asks for metadata of the topics that it uses, since a broker creates the topics that clients ask for."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

from kohort import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from kohort.client import OffsetSpec
from kohort.errors import ErrorCode
from kohort.wire.messages.metadata import MetadataRequest
from tests.client.conftest import NewTopicName
from tests.client.link import linked_broker
from tests.interop.broker import Broker

_METADATA = 3


def _note(asked: list[set[str] | None], request: MetadataRequest) -> None:
    asked.append(None if request.topics is None else {topic.name or "" for topic in request.topics})


def subscribed(consumer: Consumer, topic: str) -> None:
    consumer.subscribe([topic])


def assigned(consumer: Consumer, topic: str) -> None:
    consumer.assign([TopicPartition(topic, 0)])


def matched(consumer: Consumer, topic: str) -> None:
    consumer.subscribe(re.compile(topic))


@pytest.mark.parametrize("use", [subscribed, assigned, matched])
async def test_a_consumer_asks_for_the_topics_that_it_uses_and_no_others(
    use: Callable[[Consumer, str], None], fresh: str
) -> None:
    asked: list[set[str] | None] = []
    async with linked_broker() as (_, link):
        link.watch[_METADATA] = partial(_note, asked)
        bootstrap = f"127.0.0.1:{link.port}"
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics([NewTopic(fresh, 1)])
        async with Consumer(bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
            use(consumer, fresh)
            while consumer.positions() != {TopicPartition(fresh, 0): 0}:
                await consumer.poll(timeout=0.05)
            asked.clear()
            await consumer.cluster.refresh()
            assert asked[-1] == (None if use is matched else {fresh})
            await consumer.unsubscribe()
            asked.clear()
            await consumer.cluster.refresh()
            assert asked[-1] == set()


async def test_a_topic_that_was_looked_at_is_not_asked_for_again(
    any_broker: Broker, admin: Admin, new_topic: NewTopicName
) -> None:
    topic = await new_topic()
    async with Consumer(bootstrap_servers=any_broker.bootstrap) as consumer:
        assert await consumer.partitions_for(topic) == 1
        await consumer.end_offsets([TopicPartition(topic, 0)])
        await admin.delete_topics([topic])
        await consumer.cluster.refresh()
        assert topic not in await admin.list_topics()


async def test_a_producer_keeps_requesting_its_topics(fresh: str) -> None:
    asked: list[set[str] | None] = []
    async with linked_broker() as (_, link):
        link.watch[_METADATA] = partial(_note, asked)
        async with Producer(bootstrap_servers=f"127.0.0.1:{link.port}") as producer:
            await (await producer.send(fresh, b"v"))  # creates the topic
            asked.clear()
            await producer.cluster.refresh()
            assert asked[-1] == {fresh}


async def test_an_admin_client_creates_no_topic_by_asking_for_it(any_broker: Broker, admin: Admin, fresh: str) -> None:
    async with Admin(bootstrap_servers=any_broker.bootstrap, default_api_timeout_ms=500) as asking:
        with pytest.raises(KafkaError) as refused:
            await asking.list_offsets({TopicPartition(fresh, 0): OffsetSpec.LATEST})
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fresh not in await admin.list_topics()
