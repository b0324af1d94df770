"""Topics, groups and offsets as an operator sees them."""

from __future__ import annotations

from typing import Any

import pytest

from kohort import (
    Admin,
    Consumer,
    ErrorCode,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    Producer,
    TopicPartition,
)
from kohort.client import ConfigKind
from tests.client.conftest import NewTopicName
from tests.interop.broker import Broker


async def test_topics_come_and_go(admin: Admin, fresh: str) -> None:
    ids = await admin.create_topics([NewTopic(fresh, 3, 1, {"retention.ms": "-1"})])
    assert fresh in await admin.list_topics()
    topic = (await admin.describe_topics([fresh]))[fresh]
    assert (topic.topic_id, sorted(topic.leaders), topic.internal) == (ids[fresh], [0, 1, 2], False)
    with pytest.raises(KafkaError) as raised:
        await admin.create_topics([NewTopic(fresh)])
    assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    await admin.delete_topics([fresh])
    assert fresh not in await admin.list_topics()
    with pytest.raises(KafkaError) as raised:
        await admin.delete_topics([fresh])
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError) as raised:
        await admin.describe_topics([fresh])
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_invalid_topics_are_rejected(admin: Admin, fresh: str) -> None:
    for topic, code in (
        (NewTopic("no/topic"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(fresh, 0), ErrorCode.INVALID_PARTITIONS),
    ):
        with pytest.raises(KafkaError) as raised:
            await admin.create_topics([topic])
        assert raised.value.code is code
    await admin.create_topics([NewTopic(fresh, 2)], validate_only=True)
    assert fresh not in await admin.list_topics()


async def test_the_cluster_describes_itself(admin: Admin, any_broker: Broker) -> None:
    cluster = await admin.describe_cluster()
    assert cluster.cluster_id
    assert [f"{broker.host}:{broker.port}" for broker in cluster.brokers.values()] == [any_broker.bootstrap]


async def test_offsets_by_end_and_by_time(admin: Admin, any_broker: Broker, new_topic: NewTopicName) -> None:
    here = TopicPartition(await new_topic(), 0)
    start = 1_795_000_000_000
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for n in range(5):
            await (await producer.send(here.topic, b"x", timestamp=start + n * 10))

    async def offset(spec: OffsetSpec | int) -> int | None:
        found = (await admin.list_offsets({here: spec}))[here]
        return None if found is None else found.offset

    assert [await offset(spec) for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)] == [0, 5]
    assert [await offset(start + late) for late in (-5, 10, 11, 40, 41)] == [0, 1, 2, 4, None]
    assert await offset(OffsetSpec.MAX_TIMESTAMP) == 4
    with pytest.raises(KafkaError) as raised:
        async with Admin(bootstrap_servers=any_broker.bootstrap, default_api_timeout_ms=300) as hasty:
            await hasty.list_offsets({TopicPartition(here.topic, 9): OffsetSpec.LATEST})
    assert raised.value.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)


async def test_a_group_with_its_members_and_its_lag(
    admin: Admin, any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(2)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for n in range(10):
            await producer.send(topic, b"x", partition=n % 2)
    options: dict[str, Any] = {
        "bootstrap_servers": any_broker.bootstrap,
        "group_id": fresh,
        "auto_offset_reset": "earliest",
    }
    async with Consumer(topic, client_id="reader", enable_auto_commit=False, **options) as consumer:
        read = 0
        while read < 10:
            read += len(await consumer.poll())
        await consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(3, "so far")})
        described = (await admin.describe_groups([fresh]))[fresh]
        assert (described.state, described.protocol_type, described.assignor) == ("Stable", "consumer", "range")
        (member,) = described.members
        assert (member.client_id, member.member_id) == ("reader", consumer.member_id)
        assert (member.topics, member.assignment) == (frozenset({topic}), consumer.assignment)
        listed = {listing.group_id: listing for listing in await admin.list_groups()}
        assert (listed[fresh].state, listed[fresh].type) == ("Stable", "classic")
        lags = {row.partition.partition: (row.committed, row.end, row.lag) for row in await admin.group_lag(fresh)}
        assert lags == {0: (3, 5, 2), 1: (None, 5, None)}
        with pytest.raises(KafkaError):
            await admin.alter_group_offsets(fresh, {TopicPartition(topic, 0): 0})
    assert (await admin.describe_groups([fresh]))[fresh].state == "Empty"
    await admin.alter_group_offsets(fresh, {TopicPartition(topic, 1): 1})
    assert await admin.group_offsets(fresh, [TopicPartition(topic, 0), TopicPartition(topic, 1)]) == {
        TopicPartition(topic, 0): OffsetAndMetadata(3, "so far"),
        TopicPartition(topic, 1): OffsetAndMetadata(1),
    }
    assert set(await admin.group_offsets(fresh)) == {TopicPartition(topic, 0), TopicPartition(topic, 1)}


async def test_a_topic_grows(admin: Admin, new_topic: NewTopicName) -> None:
    topic = await new_topic(2)
    await admin.create_partitions(topic, 5)
    assert len((await admin.describe_topics([topic]))[topic].leaders) == 5
    with pytest.raises(KafkaError) as raised:
        await admin.create_partitions(topic, 3)
    assert raised.value.code is ErrorCode.INVALID_PARTITIONS


async def test_configs_are_read_and_changed(admin: Admin, new_topic: NewTopicName) -> None:
    topic = await new_topic(retention_ms="1000000")
    configs = await admin.describe_configs(ConfigKind.TOPIC, topic)
    assert (configs["retention.ms"].value, configs["retention.ms"].is_default) == ("1000000", False)
    assert configs["cleanup.policy"].is_default
    await admin.alter_configs(ConfigKind.TOPIC, topic, {"retention.ms": None, "max.message.bytes": "2000"})
    configs = await admin.describe_configs(ConfigKind.TOPIC, topic)
    assert configs["retention.ms"].value != "1000000"
    assert configs["max.message.bytes"].value == "2000"
    with pytest.raises(KafkaError) as raised:
        await admin.alter_configs(ConfigKind.TOPIC, topic, {"no.such.config": "1"})
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    (node,) = (await admin.describe_cluster()).brokers
    assert "group.initial.rebalance.delay.ms" in await admin.describe_configs(ConfigKind.BROKER, str(node))


async def test_members_and_offsets_are_removed(
    admin: Admin, any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    options: dict[str, Any] = {"bootstrap_servers": any_broker.bootstrap, "group_id": fresh}
    async with Consumer(topic, heartbeat_interval_ms=100, **options) as consumer:
        while not consumer.assignment:
            await consumer.poll(timeout=0.05)
        await consumer.commit({here: 0})
        for code, call in (
            (ErrorCode.NON_EMPTY_GROUP, admin.delete_groups([fresh])),
            (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, admin.delete_group_offsets(fresh, [here])),
        ):
            with pytest.raises(KafkaError) as raised:
                await call
            assert raised.value.code is code
        first = consumer.member_id
        await admin.remove_members(fresh, [first])
        while consumer.member_id in ("", first) or not consumer.assignment:
            await consumer.poll(timeout=0.05)  # it notices, and joins again
        with pytest.raises(KafkaError) as raised:
            await admin.remove_members(fresh, ["nobody"])
        assert raised.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    await admin.delete_group_offsets(fresh, [here])
    assert await admin.group_offsets(fresh, [here]) == {here: None}
    await admin.alter_group_offsets(fresh, {here: 0})
    await admin.delete_groups([fresh])
    assert fresh not in [listing.group_id for listing in await admin.list_groups()]


async def test_a_group_that_does_not_exist_is_dead(admin: Admin, fresh: str) -> None:
    assert (await admin.describe_groups([fresh]))[fresh].state == "Dead"
    assert await admin.group_lag(fresh) == []
