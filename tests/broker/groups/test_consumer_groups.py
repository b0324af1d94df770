"""Consumer groups (KIP-848) through the broker: what the shell adds to the coordinator."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ConfigError, ErrorCode
from kohort.log import FileStore
from kohort.model import UUID
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.peer import Peer, talking_to, until

AT_ONCE = {**QUICK, "group.consumer.assignment.interval.ms": "0"}

Beat = Callable[..., Awaitable[ConsumerGroupHeartbeatResponse]]


def request(group: str = "g", member: str = "a", epoch: int = 0, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 5_000, "topic_partitions": [], "subscribed_topic_names": ["orders"], **fields}
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)


async def beat(peer: Peer, *named: Any, version: int = 1, **fields: Any) -> ConsumerGroupHeartbeatResponse:
    return await peer.ask(request(*named, **fields), version, ConsumerGroupHeartbeatResponse)


def assigned_topics(response: ConsumerGroupHeartbeatResponse) -> list[TopicPartitions] | None:
    assert response.error_code == ErrorCode.NONE, response
    return None if response.assignment is None else response.assignment.topic_partitions


def partitions(topic_id: UUID, *numbers: int) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic_id, partitions=list(numbers))]


@pytest.fixture
async def broker(start_broker: MakeBroker) -> Broker:
    return await start_broker(BrokerOptions(port=0, settings=AT_ONCE))


async def test_members_learn_of_topics_that_are_created_grow_are_deleted_and_recreated(
    broker: Broker, peer: Peer
) -> None:
    epoch = (await beat(peer)).member_epoch
    topic = broker.topics.create("orders", 1)
    response = await beat(peer, "g", "a", epoch)
    assert assigned_topics(response) == partitions(topic.topic_id, 0)
    broker.topics.grow(topic, 3)
    response = await beat(peer, "g", "a", response.member_epoch)
    assert assigned_topics(response) == partitions(topic.topic_id, 0, 1, 2)
    broker.delete_topic(topic)
    again = broker.topics.create("orders", 2)
    response = await beat(peer, "g", "a", response.member_epoch, topic_partitions=[])
    assert assigned_topics(response) == partitions(again.topic_id, 0, 1)


async def test_a_heartbeat_right_behind_a_new_topic_knows_it(peer: Peer) -> None:
    peer.send(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]), 7)
    peer.send(request(), 1)
    (topic,) = (await peer.answer(CreateTopicsResponse)).topics
    assert assigned_topics(await peer.answer(ConsumerGroupHeartbeatResponse)) == partitions(topic.topic_id, 0)


async def test_many_topics_at_once_make_one_image(broker: Broker, peer: Peer) -> None:
    before = broker.topics_image.current
    wanted = [CreatableTopic(name=f"t{n}", num_partitions=1, replication_factor=1) for n in range(20)]
    await peer.ask(CreateTopicsRequest(topics=wanted), 7, CreateTopicsResponse)
    await until(lambda: broker.topics_image.current is not before)
    assert len(broker.topics_image.current.by_name) == len(before.by_name) + 20
    kept = broker.topics_image.current.by_name["t7"]
    broker.topics.create("one-more", 1)
    broker.topics_image.tell()
    assert broker.topics_image.current.by_name["t7"] is kept


async def test_a_group_outlives_its_broker(start_broker: MakeBroker, tmp_path: Path) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data", settings=AT_ONCE)
    first = await start_broker(options)
    first.topics.create("orders", 2)
    async with talking_to(first) as peer:
        joined = await beat(peer)
    await first.stop()
    second = await start_broker(options)
    await until(lambda: all(shard.ready for shard in second.groups))
    async with talking_to(second) as peer:
        response = await beat(peer, "g", "a", joined.member_epoch)
        assert (response.error_code, response.member_epoch, response.assignment) == (0, joined.member_epoch, None)
        third = await beat(peer, "g", "a", joined.member_epoch, subscribed_topic_names=["orders", "more"])
        assert third.member_epoch == joined.member_epoch + 1
    assert second.topics_image.current.version > first.topics_image.current.version


async def test_a_topic_deleted_while_the_broker_was_down_is_noticed(start_broker: MakeBroker, tmp_path: Path) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data", settings=AT_ONCE)
    first = await start_broker(options)
    topic = first.topics.create("orders", 2)
    async with talking_to(first) as peer:
        joined = await beat(peer)
    await first.stop()
    store = FileStore(tmp_path / "data")
    store.delete_topic(topic.topic_id)
    store.close()
    second = await start_broker(options)
    await until(lambda: all(shard.ready for shard in second.groups))
    async with talking_to(second) as peer:
        assert assigned_topics(await beat(peer, "g", "a", joined.member_epoch, topic_partitions=[])) == []


async def test_a_groups_own_interval_is_returned_by_the_next_heartbeat(broker: Broker, peer: Peer) -> None:
    joined = await beat(peer)
    assert joined.heartbeat_interval_ms == 5_000
    broker.change_group_configs("g", {"consumer.heartbeat.interval.ms": "7000"})
    assert (await beat(peer, "g", "a", joined.member_epoch)).heartbeat_interval_ms == 7_000
    assert (await beat(peer, "other")).heartbeat_interval_ms == 5_000
    broker.change_group_configs("g", {})
    assert (await beat(peer, "g", "a", joined.member_epoch)).heartbeat_interval_ms == 5_000


async def test_a_shorter_session_timeout_applies_at_once(start_broker: MakeBroker) -> None:
    least = {"group.consumer.min.session.timeout.ms": "1", "group.consumer.min.heartbeat.interval.ms": "1"}
    broker = await start_broker(BrokerOptions(port=0, settings=least))
    async with talking_to(broker) as peer:
        await beat(peer)
        broker.change_group_configs("g", {"consumer.session.timeout.ms": "2", "consumer.heartbeat.interval.ms": "1"})
        described = ConsumerGroupDescribeRequest(group_ids=["g"])
        async with asyncio.timeout(10):
            while (await peer.ask(described, 1, ConsumerGroupDescribeResponse)).groups[0].members:
                pass


async def test_groups_of_all_shards_are_described_and_listed(peer: Peer) -> None:
    names = [f"g{number}" for number in range(5)]
    for name in names:
        await beat(peer, name)
    asked = ConsumerGroupDescribeRequest(group_ids=[*names, "none"], include_authorized_operations=True)
    groups = (await peer.ask(asked, 1, ConsumerGroupDescribeResponse)).groups
    assert [group.group_id for group in groups] == [*names, "none"]
    assert [group.error_code for group in groups] == [0] * 5 + [ErrorCode.GROUP_ID_NOT_FOUND]
    assert {group.authorized_operations > 0 for group in groups[:5]} == {True}
    listed = await peer.ask(ListGroupsRequest(types_filter=["consumer"]), 5, ListGroupsResponse)
    assert {group.group_id for group in listed.groups} == set(names)
    assert {group.group_type for group in listed.groups} == {"consumer"}


async def test_a_broker_may_serve_classic_groups_alone(start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings={"group.coordinator.rebalance.protocols": "classic"}))
    async with talking_to(broker) as peer:
        assert (await beat(peer)).error_code == ErrorCode.UNSUPPORTED_VERSION
        asked = ConsumerGroupDescribeRequest(group_ids=["g"])
        (group,) = (await peer.ask(asked, 0, ConsumerGroupDescribeResponse)).groups
        assert group.error_code == ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(ConfigError, match="must include classic"):
        Broker(BrokerOptions(settings={"group.coordinator.rebalance.protocols": "consumer"}))


async def test_the_brokers_assignors_are_those_that_it_was_given(start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings={"group.consumer.assignors": "range"}))
    async with talking_to(broker) as peer:
        assert (await beat(peer, server_assignor="uniform")).error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
        assert (await beat(peer, server_assignor="range")).error_code == ErrorCode.NONE
    with pytest.raises(ConfigError, match="no server assignor 'best'"):
        Broker(BrokerOptions(settings={"group.consumer.assignors": "best"}))
