"""Features that only the consumer protocol has (KIP-848), with both brokers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kohort import (
    Admin,
    Cluster,
    ConfigError,
    Consumer,
    ErrorCode,
    KafkaError,
    Membership,
    NewTopic,
    SubscriptionPattern,
    TopicPartition,
    testing,
)
from kohort.client import MembershipKeywords, Phase
from tests.client.conftest import NewTopicName, eventually
from tests.interop.broker import Broker

CONSUMER: MembershipKeywords = {"group_protocol": "consumer"}


@pytest.fixture
async def cluster(any_broker: Broker) -> AsyncIterator[Cluster]:
    async with Cluster.of(any_broker.bootstrap) as made:
        yield made


async def test_the_broker_matches_a_pattern_also_topics_to_come(
    any_broker: Broker, admin: Admin, new_topic: NewTopicName, fresh: str
) -> None:
    first = await new_topic(2)
    async with Consumer(bootstrap_servers=any_broker.bootstrap, group_id=fresh, **CONSUMER) as consumer:
        consumer.subscribe(SubscriptionPattern(f"{fresh}-.*"))
        while len(consumer.assignment) != 2:
            await consumer.poll(timeout=0.1)
        second = await new_topic(1)
        await admin.create_topics([NewTopic(f"other-{fresh}", 1)])
        while len(consumer.assignment) != 3:
            await consumer.poll(timeout=0.1)
        assert {partition.topic for partition in consumer.assignment} == {first, second}
        consumer.subscribe([second])
        while consumer.assignment != {TopicPartition(second, 0)}:
            await consumer.poll(timeout=0.1)


async def test_topics_matched_by_the_broker_are_in_every_metadata_refresh(
    any_broker: Broker, admin: Admin, new_topic: NewTopicName, fresh: str
) -> None:
    # Its topics are found by id. Were they not asked for again by name, a leader that moves would never be found.
    topic = await new_topic(1)
    async with Consumer(bootstrap_servers=any_broker.bootstrap, group_id=fresh, **CONSUMER) as consumer:
        consumer.subscribe(SubscriptionPattern(topic))
        while not consumer.assignment:
            await consumer.poll(timeout=0.1)
        known = consumer.cluster.metadata.topics[topic]
        metadata = await consumer.cluster.refresh()
        assert metadata.topics[topic] is not known


async def test_an_invalid_pattern_is_rejected_with_the_reason(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    async with Consumer(bootstrap_servers=any_broker.bootstrap, group_id=fresh, **CONSUMER) as consumer:
        consumer.subscribe(SubscriptionPattern("(unclosed"))
        with pytest.raises(KafkaError) as raised:
            while True:
                await consumer.poll(timeout=0.1)
        assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
        topic = await new_topic(1)
        consumer.subscribe([topic])  # it may try again
        while consumer.assignment != {TopicPartition(topic, 0)}:
            await consumer.poll(timeout=0.1)


async def test_the_brokers_assignor_is_the_members_wish(
    cluster: Cluster, admin: Admin, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(2)
    member = await Membership.join(cluster, fresh, [topic], {**CONSUMER, "group_remote_assignor": "range"})
    assert (await admin.describe_groups([fresh]))[fresh].assignor == "range"
    await member.leave()
    with pytest.raises(KafkaError) as raised:
        await Membership.join(cluster, f"{fresh}-2", [topic], {**CONSUMER, "group_remote_assignor": "none-such"})
    assert raised.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "none-such" in raised.value.sentence


async def test_a_second_member_with_a_live_instance_id_is_rejected(
    cluster: Cluster, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(1)
    static: MembershipKeywords = {**CONSUMER, "group_instance_id": "i"}
    first = await Membership.join(cluster, fresh, [topic], static)
    with pytest.raises(KafkaError) as raised:
        await Membership.join(cluster, fresh, [topic], static)
    assert raised.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert first.state is Phase.STABLE
    await first.leave(for_good=True)


async def test_members_of_both_protocols_share_a_group_while_it_migrates(
    cluster: Cluster, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(4)
    classic: MembershipKeywords = {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 200}

    def shared(*members: Membership) -> bool:
        sizes = [len(member.assignment) for member in members]
        return sum(sizes) == 4 and max(sizes) - min(sizes) <= 1

    one, two = [await Membership.join(cluster, fresh, [topic], classic) for _ in range(2)]
    await eventually(lambda: shared(one, two))
    await one.leave()
    new_one = await Membership.join(cluster, fresh, [topic], CONSUMER)
    await eventually(lambda: shared(new_one, two))
    await two.commit(dict.fromkeys(two.assignment, 3))
    await two.leave()
    new_two = await Membership.join(cluster, fresh, [topic], CONSUMER)
    await eventually(lambda: shared(new_one, new_two))
    await new_two.leave()
    await new_one.leave()


async def test_options_of_the_other_protocol_are_rejected_with_a_sentence(cluster: Cluster) -> None:
    for option, value in (
        ("session_timeout_ms", 10_000),
        ("heartbeat_interval_ms", 1_000),
        ("partition_assignment_strategy", "range"),
    ):
        with pytest.raises(ConfigError, match=f"{option} does not apply with group_protocol consumer, where the brok"):
            refused: Any = {**CONSUMER, option: value}
            await Membership.join(cluster, "g", ["t"], refused)
    with pytest.raises(ConfigError, match="group_remote_assignor does not apply with group_protocol classic"):
        await Membership.join(cluster, "g", ["t"], {"group_remote_assignor": "uniform"})
    with pytest.raises(ConfigError, match="SubscriptionPattern needs group_protocol consumer"):
        await Membership.join(cluster, "g", SubscriptionPattern(".*"))
    with pytest.raises(ConfigError, match="needs an expression"):
        await Membership.join(cluster, "g", SubscriptionPattern(""), CONSUMER)


async def test_a_pattern_that_the_client_matches_works_as_well(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    first = await new_topic(2)
    soon: dict[str, Any] = {**CONSUMER, "group_id": fresh, "metadata_max_age_ms": 300}
    async with Consumer(bootstrap_servers=any_broker.bootstrap, **soon) as consumer:
        consumer.subscribe(re.compile(f"{fresh}-.*"))
        while len(consumer.assignment) != 2:
            await consumer.poll(timeout=0.1)
        second = await new_topic(1)
        while len(consumer.assignment) != 3:
            await consumer.poll(timeout=0.1)
        assert consumer.subscription == {first, second}


async def test_closing_without_a_broker_gives_up_in_time(fresh: str) -> None:
    async with testing.Broker(topics={fresh: 1}) as broker:
        consumer = Consumer(fresh, bootstrap_servers=broker.bootstrap_servers, group_id=fresh, **CONSUMER)
        while not consumer.assignment:
            await consumer.poll(timeout=0.1)
    async with asyncio.timeout(10):
        await consumer.close(timeout=0.5)
