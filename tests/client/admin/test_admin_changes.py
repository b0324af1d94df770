"""Forced changes by an operator: deleted records, removed members, and offsets from outside the group."""

from __future__ import annotations

from typing import Any

import pytest

from kohort import Admin, Consumer, ErrorCode, KafkaError, OffsetSpec, Producer, TopicPartition, blocking
from kohort.client import ConfigKind, ConfigSource
from tests.client.conftest import NewTopicName
from tests.interop.broker import Broker


async def written(any_broker: Broker, topic: str, partitions: int, each: int) -> None:
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for n in range(partitions * each):
            await producer.send(topic, b"x" * 100, partition=n % partitions)


async def test_records_before_an_offset_are_deleted(admin: Admin, any_broker: Broker, new_topic: NewTopicName) -> None:
    first, second = (TopicPartition(topic, n) for topic in [await new_topic(2)] for n in (0, 1))
    await written(any_broker, first.topic, 2, 5)
    assert await admin.delete_records({first: 3, second: -1}) == {first: 3, second: 5}
    starts = await admin.list_offsets({first: OffsetSpec.EARLIEST, second: OffsetSpec.EARLIEST})
    assert {partition: found.offset for partition, found in starts.items() if found} == {first: 3, second: 5}
    with pytest.raises(KafkaError) as raised:
        await admin.delete_records({first: 6, second: 5})
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE and str(first) in str(raised.value)


async def test_logs_have_sizes(admin: Admin, any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(2)
    await written(any_broker, topic, 1, 10)
    directories = await admin.describe_log_dirs([topic])
    assert {directory.node_id for directory in directories} == set((await admin.describe_cluster()).brokers)
    sizes = {partition: size for directory in directories for partition, size in directory.sizes.items()}
    assert sizes[TopicPartition(topic, 0)] > 1000 and sizes[TopicPartition(topic, 1)] == 0
    everything = {partition for directory in await admin.describe_log_dirs() for partition in directory.sizes}
    assert set(sizes) < everything


async def test_groups_have_configs_too(admin: Admin, fresh: str) -> None:
    assert all(not config.read_only for config in (await admin.describe_configs(ConfigKind.GROUP, fresh)).values())
    with pytest.raises(KafkaError) as raised:
        await admin.alter_configs(ConfigKind.GROUP, fresh, {"no.such.config": "1"})
    assert raised.value.code is ErrorCode.INVALID_CONFIG


async def test_a_start_option_of_the_broker_is_not_a_topics_own_config(admin: Admin, new_topic: NewTopicName) -> None:
    (node,) = (await admin.describe_cluster()).brokers
    started = await admin.describe_configs(ConfigKind.BROKER, str(node))
    assert started["group.initial.rebalance.delay.ms"].source is ConfigSource.STARTED_WITH
    configs = await admin.describe_configs(ConfigKind.TOPIC, await new_topic(retention_ms="1000"))
    assert [name for name, config in configs.items() if config.source is ConfigSource.TOPIC] == ["retention.ms"]


async def test_only_members_commit_while_a_group_has_some(
    admin: Admin, any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    options: dict[str, Any] = {"bootstrap_servers": any_broker.bootstrap, "group_id": fresh}
    async with Consumer(topic, **options) as consumer:
        while not consumer.assignment:
            await consumer.poll(timeout=0.05)
        with pytest.raises(KafkaError) as raised:
            await admin.alter_group_offsets(fresh, {here: 0})
    assert raised.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert f"the group {fresh} has members" in str(raised.value)


async def test_all_members_go_static_ones_too(
    admin: Admin, any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(2)
    options: dict[str, Any] = {"bootstrap_servers": any_broker.bootstrap, "group_id": fresh}
    async with Consumer(topic, group_instance_id="one", **options) as static, Consumer(topic, **options) as other:
        while not (static.assignment and other.assignment and not static.assignment & other.assignment):
            await static.poll(timeout=0.05)
            await other.poll(timeout=0.05)
        removed = await admin.remove_all_members(fresh)
        assert {member.instance_id for member in removed} == {"one", None}
        assert other.member_id in {member.member_id for member in removed}
    assert await admin.remove_all_members("no-such-group") == ()


def test_plain_threads_can_do_it_too(any_broker: Broker) -> None:
    with blocking.Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        assert admin.describe_log_dirs([])[0].sizes == {}
        assert admin.delete_records({}) == {}
        assert admin.remove_all_members("no-such-group") == ()


async def test_the_producers_of_a_partition_are_described(
    admin: Admin, any_broker: Broker, new_topic: NewTopicName
) -> None:
    used, unused = (TopicPartition(topic, n) for topic in [await new_topic(2)] for n in (0, 1))
    await written(any_broker, used.topic, 1, 3)
    found = await admin.describe_producers([used, unused])
    [producer] = found[used]
    assert producer.producer_id >= 0 and producer.last_sequence == 2 and producer.transaction_start is None
    assert found[unused] == []
    # As Java's admin client, ours asks until its time is over: the partition may be new.
    async with Admin(bootstrap_servers=any_broker.bootstrap, default_api_timeout_ms=500) as hasty:
        with pytest.raises(KafkaError) as raised:
            await hasty.describe_producers([TopicPartition(used.topic, 7)])
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_electing_the_current_leader_is_not_needed(admin: Admin, new_topic: NewTopicName) -> None:
    here = TopicPartition(await new_topic(), 0)
    missing = TopicPartition(here.topic, 7)
    assert await admin.elect_leaders([here, missing]) == {
        here: ErrorCode.ELECTION_NOT_NEEDED,
        missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert here not in await admin.elect_leaders()  # of all, those that need none are left out


async def test_resources_with_configs_are_listed(admin: Admin, new_topic: NewTopicName, fresh: str) -> None:
    topic = await new_topic()
    await admin.alter_configs(ConfigKind.GROUP, fresh, {"consumer.session.timeout.ms": "50000"})
    (node,) = (await admin.describe_cluster()).brokers
    found = await admin.list_config_resources()
    assert {(ConfigKind.TOPIC, topic), (ConfigKind.BROKER, str(node)), (ConfigKind.GROUP, fresh)} <= set(found)
    assert {kind for kind, _ in await admin.list_config_resources([ConfigKind.TOPIC])} == {ConfigKind.TOPIC}
