"""Brokers of a cluster, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kohort import Consumer
from kohort.broker import Broker, BrokerOptions
from kohort.broker.cluster import DirectoryCluster
from kohort.broker.config.entries import Source
from kohort.broker.groups.coordinator import group_partition
from kohort.coordinator import PartitionExtent
from kohort.errors import ErrorCode
from kohort.log import ClusterStore
from kohort.log.cluster import NOBODY, OFFSETS_TOPIC, PartitionId, Placement
from kohort.recorder import JOURNAL_TOPIC, RebalanceRecord
from kohort.security import Acl, Operation, PatternType, Permission, ResourcePattern, ResourceType
from kohort.wire.batches import Record, batches, decode_records, encode_batch
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kohort.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kohort.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.groups.test_loads import ASSIGNOR, Members, changed
from tests.broker.peer import talking_to

SETTINGS = {"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}


async def test_a_partition_without_a_leader_is_returned_with_its_error(tmp_path: Path) -> None:
    async with Broker(BrokerOptions(port=0, data=tmp_path, shared=True)) as broker, talking_to(broker) as peer:
        broker.topics.create("orders", 2)
        assert isinstance(broker.store, ClusterStore)
        broker.store.follow(broker.store.image.without_broker(broker.node_id))
        topics = [MetadataRequestTopic(name="orders")]
        (topic,) = (await peer.ask(MetadataRequest(topics=topics), 12, MetadataResponse)).topics
        found = {(partition.leader_id, partition.error_code) for partition in topic.partitions}
        assert found == {(NOBODY, ErrorCode.LEADER_NOT_AVAILABLE)}


async def test_a_topic_that_another_broker_just_deleted_has_no_leaders(tmp_path: Path) -> None:
    async with Broker(BrokerOptions(port=0, data=tmp_path, shared=True)) as broker:
        topic = broker.topics.create("orders", 2)
        assert isinstance(broker.store, ClusterStore)
        assert broker.leadership.leader(topic, 1).node_id == broker.node_id
        # It has read the image, as for a topic of its own, and is yet to follow it.
        broker.store.follow(replace(broker.store.image, topics={}, leaders={}))
        assert broker.leadership.leader(topic, 1).node_id == NOBODY


@asynccontextmanager
async def two_brokers(data: Path, **settings: str) -> AsyncIterator[tuple[Broker, Broker]]:
    """Over one directory; each leads its share."""
    named = SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}
    options = [BrokerOptions(port=0, data=data, shared=True, node_id=number, settings=named) for number in (1, 2)]
    async with Broker(options[0]) as first, Broker(options[1]) as second:
        assert isinstance(first.store, ClusterStore)
        await so(lambda: first.store.image.settled and len(first.store.image.nodes) == 2)  # type: ignore[attr-defined]
        yield first, second


async def so(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def leaders(broker: Broker, name: str) -> list[int]:
    topic = broker.topics.named(name)
    return [] if topic is None else [broker.leadership.leader(topic, n).node_id for n in range(topic.partitions)]


async def test_every_broker_names_the_same_leaders_and_coordinators(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as brokers:
        brokers[0].topics.create("orders", 6)
        groups = [f"g{number}" for number in range(20)]
        expected = [leaders(brokers[0], OFFSETS_TOPIC)[group_partition(group, 4)] for group in groups]
        await so(lambda: leaders(brokers[1], "orders") == leaders(brokers[0], "orders"))
        for broker in brokers:
            async with talking_to(broker) as peer:
                request = FindCoordinatorRequest(key_type=0, coordinator_keys=groups)
                found = (await peer.ask(request, 6, FindCoordinatorResponse)).coordinators
                assert [coordinator.node_id for coordinator in found] == expected
                asked = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
                (topic,) = (await peer.ask(asked, 12, MetadataResponse)).topics
                assert [partition.leader_id for partition in topic.partitions] == leaders(brokers[0], "orders")


async def test_partitions_are_led_by_the_brokers_that_they_are_assigned_to(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (first, second), talking_to(first) as peer:
        assigned = [CreatableReplicaAssignment(partition_index=n, broker_ids=[ids]) for n, ids in enumerate((2, 2, 1))]
        topic = CreatableTopic(name="orders", num_partitions=-1, replication_factor=-1, assignments=assigned)
        created = await peer.ask(CreateTopicsRequest(topics=[topic]), 5, CreateTopicsResponse)
        assert (created.topics[0].error_code, created.topics[0].num_partitions) == (ErrorCode.NONE, 3)
        more = CreatePartitionsTopic(name="orders", count=4, assignments=[CreatePartitionsAssignment(broker_ids=[2])])
        grown = await peer.ask(CreatePartitionsRequest(topics=[more]), 3, CreatePartitionsResponse)
        assert grown.results[0].error_code == ErrorCode.NONE
        assert leaders(first, "orders") == [2, 2, 1, 2]
        await so(lambda: leaders(second, "orders") == [2, 2, 1, 2])
        assert second.partition("orders", 3) is not None


async def test_a_coordinator_that_is_back_before_its_broker_looks_again_is_led(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (first, second):
        assert isinstance(first.leadership, DirectoryCluster) and isinstance(second.store, ClusterStore)
        topic = first.topics.named(OFFSETS_TOPIC)
        assert topic is not None
        partition = PartitionId(topic.topic_id, leaders(first, OFFSETS_TOPIC).index(1))
        second.leadership.reassign({partition: (2,)}, ())
        first.leadership.look_every_s = 3_600  # it looks once more, gives the partition away, and then not again
        await so(lambda: any(shard.partition == partition.partition for shard in second.groups))
        second.leadership.reassign({partition: (1,)}, ())
        await so(lambda: leaders(second, OFFSETS_TOPIC)[partition.partition] == 1)
        assert partition.partition not in {shard.partition for shard in first.groups}
        first.leadership.catch_up()
        assert partition.partition in {shard.partition for shard in first.groups}


async def test_a_setting_of_all_brokers_applies_at_each_until_it_is_deleted(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (first, second):
        default = second.config.number("min.insync.replicas")
        first.change_config(Source.ALL_BROKERS, {"min.insync.replicas": "2"})
        await so(lambda: second.config.number("min.insync.replicas") == 2)
        first.change_config(Source.ALL_BROKERS, {})
        await so(lambda: second.config.number("min.insync.replicas") == default)
        assert second.dynamic_config.changed(Source.ALL_BROKERS) == {}


async def test_a_change_of_acls_keeps_those_that_another_broker_just_added(tmp_path: Path) -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    settings = {"authorizer_class_name": authorizer, "super_users": "User:ANONYMOUS"}
    pattern = ResourcePattern(ResourceType.TOPIC, "orders")
    denied = Acl(pattern, "User:bob", "*", Operation.READ, Permission.DENY)
    allowed = Acl(pattern, "User:alice", "*", Operation.READ, Permission.ALLOW)
    async with two_brokers(tmp_path, **settings) as (first, second), talking_to(second) as peer:
        assert isinstance(second.leadership, DirectoryCluster)
        assert first.access_control is not None and second.access_control is not None
        second.leadership.look_every_s = 3_600
        first.access_control.add([denied])
        creation = AclCreation(
            resource_type=allowed.pattern.resource_type,
            resource_name=allowed.pattern.name,
            principal=allowed.principal,
            host=allowed.host,
            operation=allowed.operation,
            permission_type=allowed.permission,
        )
        created = await peer.ask(CreateAclsRequest(creations=[creation]), 3, CreateAclsResponse)
        assert [result.error_code for result in created.results] == [ErrorCode.NONE]
        await so(lambda: first.access_control.acls.all == {denied, allowed})  # type: ignore[union-attr]
        other = replace(allowed, principal="User:carol")
        first.access_control.add([other])
        everything = DeleteAclsFilter(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=None,
            operation=Operation.ANY,
            permission_type=Permission.ANY,
        )
        deleted = await peer.ask(DeleteAclsRequest(filters=[everything]), 3, DeleteAclsResponse)
        assert len(deleted.filter_results[0].matching_acls) == 3


async def test_a_broker_that_leads_no_partition_of_the_journal_makes_itself_one(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (first, second):
        first.topics.create(JOURNAL_TOPIC, 1)
        await so(lambda: leaders(second, JOURNAL_TOPIC) == leaders(first, JOURNAL_TOPIC) != [])
        (leader,) = leaders(first, JOURNAL_TOPIC)
        other = first if leader == second.node_id else second
        groups = (f"g{number}" for number in range(100))
        group = next(
            group for group in groups if leaders(other, OFFSETS_TOPIC)[group_partition(group, 4)] == other.node_id
        )
        other.topics.create("orders", 1)
        async with Consumer(bootstrap_servers=f"127.0.0.1:{first.port}", group_id=group) as consumer:
            consumer.subscribe(["orders"])
            while not consumer.assignment:
                await consumer.poll(timeout=0.1)
        other.journal.close()  # what it has is written
        assert sorted(leaders(other, JOURNAL_TOPIC)) == [1, 2]
        await other.writer.drain()
        assert group in written(other)


@pytest.mark.parametrize("assignor", ["lag", "rate"])
async def test_loads_are_those_of_partitions_that_other_brokers_lead_too(tmp_path: Path, assignor: str) -> None:
    interval = {"group_consumer_load_interval_ms": "50", "group_consumer_assignment_interval_ms": "0"}
    async with two_brokers(tmp_path, **interval) as brokers:
        owner = leaders(brokers[0], OFFSETS_TOPIC)[group_partition("g", 4)]
        coordinator, other = sorted(brokers, key=lambda broker: broker.node_id != owner)
        coordinator.change_group_configs("g", {ASSIGNOR: assignor})
        topic = coordinator.topics.create("orders", 4, placement=Placement(1, [[other.node_id]] * 4))
        async with talking_to(coordinator) as peer:
            members = Members(peer, topic.topic_id)
            before = await members.settle()
            await so(lambda: len(coordinator.loads.measured) == 4)
            busy = before["a"]
            for partition in busy:
                log = other.partition("orders", partition)
                assert log is not None
                log.append(encode_batch([Record(n, 1_000, None, b"x") for n in range(900)]), log.leader_epoch)
            other.writer.current()
            after = await changed(peer, before)
            assert all(len(busy & target) == 1 for target in after.values())


async def test_offsets_that_another_broker_told_are_used_until_it_tells_others(tmp_path: Path) -> None:
    async with two_brokers(tmp_path, group_consumer_load_interval_ms="3600000") as brokers:
        owner = leaders(brokers[0], OFFSETS_TOPIC)[group_partition("g", 4)]
        coordinator, other = sorted(brokers, key=lambda broker: broker.node_id != owner)
        coordinator.change_group_configs("g", {ASSIGNOR: "lag"})
        places = [[coordinator.node_id], [other.node_id], [coordinator.node_id]]
        topic = coordinator.topics.create("orders", 3, placement=Placement(1, places))
        await so(lambda: leaders(other, "orders") == [place for (place,) in places])
        for broker, partition in ((coordinator, 0), (other, 1), (other, 1), (coordinator, 2)):
            log = broker.partition("orders", partition)
            assert log is not None
            log.append(encode_batch([Record(0, 1_000, None, b"x")]), log.leader_epoch)
            broker.writer.current()
            await broker.writer.drain()
        async with talking_to(coordinator) as peer:
            await Members(peer, topic.topic_id).settle()
        loads = coordinator.loads

        def measured() -> list[PartitionExtent]:
            return loads._extents("orders", {})

        here, unknown, elsewhere = (
            PartitionExtent(0, 1, None),
            PartitionExtent(0, 0, None),
            PartitionExtent(0, 2, None),
        )
        assert measured() == [here, unknown, here]
        before = len(other.sockets)
        await loads._ask_others()
        assert measured() == [here, elsewhere, here]
        assert len(other.sockets) > before
        other.sockets.stop_listening()
        for connection in list(other.sockets):
            connection.close()
        await loads._ask_others()
        assert measured() == [here, elsewhere, here], "nobody answered"
        coordinator.delete_topic(topic)
        await loads._ask_others()
        assert loads._elsewhere == {}


async def test_a_broker_that_stops_measuring_loads_leaves_no_connection(tmp_path: Path) -> None:
    async with two_brokers(tmp_path, group_consumer_load_interval_ms="3600000") as brokers:
        owner = leaders(brokers[0], OFFSETS_TOPIC)[group_partition("g", 4)]
        coordinator, other = sorted(brokers, key=lambda broker: broker.node_id != owner)
        coordinator.change_group_configs("g", {ASSIGNOR: "lag"})
        topic = coordinator.topics.create("orders", 1, placement=Placement(1, [[other.node_id]]))
        async with talking_to(coordinator) as peer:
            await Members(peer, topic.topic_id).settle()
        await so(lambda: other.partition("orders", 0) is not None)  # until it leads it, there is nothing to measure
        before = len(other.sockets)
        await coordinator.loads._ask_others()
        assert len(other.sockets) > before
        await coordinator.loads.close()
        assert coordinator.loads._task.done()
        await so(lambda: len(other.sockets) == before)


def written(broker: Broker) -> set[str]:
    """The groups that the broker wrote of into the journal."""
    found = set()
    for number in range(len(leaders(broker, JOURNAL_TOPIC))):
        log = broker.partition(JOURNAL_TOPIC, number)
        for piece in () if log is None else log.read(0, 1 << 20):
            for position, _ in batches(piece):
                found |= {
                    RebalanceRecord.from_json(record.value or b"").group_id
                    for record in decode_records(piece, position)
                }
    return found
