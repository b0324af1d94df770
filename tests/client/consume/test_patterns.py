"""Topics by pattern, as the client finds them; and topics that come and go while it is subscribed."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from kohort import Admin, Consumer, NewTopic, TopicPartition, blocking
from kohort.client import ClusterMetadata, Phase
from kohort.client.consume.topic_patterns import matching_topics
from kohort.errors import ErrorCode
from kohort.recorder import JOURNAL_TOPIC
from kohort.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tests.client.conftest import NewTopicName, eventually
from tests.client.consume.test_consumer import consumer_of, fill, take
from tests.interop.broker import Broker
from tests.interop.kohort import KohortBroker


def known(*names: str) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                name=name,
                partitions=[MetadataResponsePartition(partition_index=0, leader_id=1)],
            )
            for name in names
        ]
    )


def test_whole_names_match() -> None:
    metadata = ClusterMetadata().merged(known("a", "ab", "b"), of_all=True)
    assert matching_topics(metadata, re.compile("a|b"), internal=False) == {"a", "b"}


async def test_a_pattern_matches_the_clusters_own_topics_only_on_demand(
    any_broker: Broker, admin: Admin, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic()
    internal = {"__consumer_offsets", JOURNAL_TOPIC} if isinstance(any_broker, KohortBroker) else {"__consumer_offsets"}
    pattern = re.compile("|".join([f"{fresh}.*", *internal]))  # other tests make more topics of the cluster
    async with consumer_of(any_broker, group_id=fresh) as consumer:
        consumer.subscribe(pattern)
        await eventually(lambda: consumer.generation is not None)
        assert consumer.subscription == {topic}
        # The broker writes its first rebalance when the members no longer wait for it.
        async with asyncio.timeout(20):
            while not internal <= set(await admin.list_topics(internal=True)):
                await consumer.poll(timeout=0.05)
        assert internal.isdisjoint(await admin.list_topics())
    all_topics = consumer_of(any_broker, group_id=f"{fresh}-2", exclude_internal_topics=False)
    async with all_topics as consumer:
        consumer.subscribe(pattern)
        await eventually(lambda: consumer.subscription == {topic} | internal)


def test_a_topic_missing_in_an_answer_of_all_topics_does_not_exist() -> None:
    # A consumer that waited for such a topic to be told of would ask again and again.
    metadata = (
        ClusterMetadata().merged(known("a", "gone"), of_all=True).merged(known("a"), asked={"never", "a"}, of_all=True)
    )
    assert {name: topic.error for name, topic in metadata.topics.items()} == {
        "a": ErrorCode.NONE,
        "never": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert matching_topics(metadata, re.compile(".*"), internal=True) == {"a"}


async def test_topics_that_start_or_cease_to_match_come_and_go(any_broker: Broker, admin: Admin, fresh: str) -> None:
    one, two, other = f"{fresh}-one", f"{fresh}-two", f"other-{fresh}-one"
    await admin.create_topics([NewTopic(one, 2), NewTopic(other, 1)])
    consumer = consumer_of(any_broker, group_id=fresh, metadata_max_age_ms=200)
    revoked: list[frozenset[TopicPartition]] = []
    consumer.subscribe(re.compile(f"{fresh}-.*"), on_revoked=revoked.append)
    async with consumer, asyncio.timeout(30):
        while consumer.assignment != {TopicPartition(one, 0), TopicPartition(one, 1)}:
            await consumer.poll(timeout=0.05)
        before = consumer.generation
        assert consumer.subscription == {one}
        await admin.create_topics([NewTopic(two, 1)])
        await fill(any_broker.bootstrap, two, 3)
        assert {record.topic for record in await take(consumer, 3)} == {two}
        assert consumer.subscription == {one, two}
        assert consumer.generation != before
        await admin.delete_topics([one])
        while consumer.assignment != {TopicPartition(two, 0)}:
            await consumer.poll(timeout=0.05)
        assert consumer.subscription == {two}
    assert {partition.topic for gone in revoked for partition in gone} == {one, two}


async def test_members_by_pattern_share_what_matches(any_broker: Broker, new_topic: NewTopicName, fresh: str) -> None:
    topics = {await new_topic(2), await new_topic(2)}
    pattern = re.compile(f"{fresh}-.*")
    async with consumer_of(any_broker, group_id=fresh) as one, consumer_of(any_broker, group_id=fresh) as two:
        for consumer in (one, two):
            consumer.subscribe(pattern)
        async with asyncio.timeout(30):
            while len(one.assignment) != 2 or len(two.assignment) != 2:
                await asyncio.gather(one.poll(timeout=0.05), two.poll(timeout=0.05))
    assert one.subscription == two.subscription == topics


async def test_a_pattern_that_matches_nothing_makes_a_member_that_waits(
    any_broker: Broker, admin: Admin, fresh: str, protocol: dict[str, Any]
) -> None:
    # As Java's: a group that waits for its topics can be seen, and its first topic costs one rebalance.
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 200, **protocol}
    async with Consumer(bootstrap_servers=any_broker.bootstrap, group_id=fresh, **options) as consumer:
        consumer.subscribe(re.compile(f"{fresh}.*"))
        async with asyncio.timeout(20):
            while consumer.state is not Phase.STABLE:
                assert await consumer.poll(timeout=0.05) == []
        assert (consumer.subscription, consumer.assignment) == (frozenset(), frozenset())
        assert [member.member_id for member in (await admin.describe_groups([fresh]))[fresh].members] == [
            consumer.member_id
        ]
        await admin.create_topics([NewTopic(fresh, 1)])
        await fill(any_broker.bootstrap, fresh, 1)
        await take(consumer, 1)
        await admin.delete_topics([fresh])
        async with asyncio.timeout(20):
            while consumer.assignment or consumer.subscription:
                await consumer.poll(timeout=0.05)
        assert consumer.generation is not None


async def test_when_topics_are_noticed_is_metadata_max_age_ms(any_broker: Broker, admin: Admin, fresh: str) -> None:
    await admin.create_topics([NewTopic(f"{fresh}-one", 1)])
    async with consumer_of(any_broker, group_id=fresh) as seldom:  # the default: every five minutes
        seldom.subscribe(re.compile(f"{fresh}-.*"))
        async with asyncio.timeout(20):
            while not seldom.assignment:
                await seldom.poll(timeout=0.05)
        await seldom.cluster.refresh()  # whatever joining wanted to know is known
        await admin.create_topics([NewTopic(f"{fresh}-two", 1)])
        async with consumer_of(any_broker, group_id=f"{fresh}-2", metadata_max_age_ms=100) as often:
            often.subscribe(re.compile(f"{fresh}-.*"))
            await eventually(lambda: len(often.subscription) == 2)
        await seldom.poll(timeout=0.2)
        assert seldom.subscription == {f"{fresh}-one"}


async def test_names_instead_of_a_pattern_end_the_looking(
    any_broker: Broker, admin: Admin, new_topic: NewTopicName, fresh: str
) -> None:
    one, two = await new_topic(), await new_topic()
    async with consumer_of(any_broker, group_id=fresh, metadata_max_age_ms=100) as consumer, asyncio.timeout(30):
        consumer.subscribe(re.compile(f"{fresh}-.*"))
        while len(consumer.assignment) != 2:
            await consumer.poll(timeout=0.05)
        consumer.subscribe([one])
        while consumer.assignment != {TopicPartition(one, 0)}:
            await consumer.poll(timeout=0.05)
        await admin.create_topics([NewTopic(f"{fresh}-three", 1)])
        await consumer.cluster.refresh()
        await consumer.poll(timeout=0.2)
        assert consumer.subscription == {one}
        await consumer.unsubscribe()
        consumer.subscribe(re.compile(re.escape(two)))
        while consumer.assignment != {TopicPartition(two, 0)}:
            await consumer.poll(timeout=0.05)


def test_the_blocking_face_takes_patterns(kohort_broker: Broker, fresh: str) -> None:
    with blocking.Producer(bootstrap_servers=kohort_broker.bootstrap) as producer:
        producer.send(fresh, b"x").result()
    with blocking.Consumer(
        bootstrap_servers=kohort_broker.bootstrap, group_id=fresh, auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(re.compile(f"{fresh}.*"))
        assert next(consumer).value == b"x"
