"""Topics with replicas over three brokers in this process: what administrators ask for, and what is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.cluster.directory import DirectoryCluster
from kohort.errors import ErrorCode
from kohort.log import ClusterStore
from kohort.log.cluster import PartitionId
from kohort.log.partition import SegmentedLog
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kohort.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kohort.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from kohort.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kohort.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.peer import Peer, talking_to
from tests.cluster.test_shared_broker import SETTINGS, leaders, so


@asynccontextmanager
async def brokers(
    data: Path, number: int = 3, *, racks: Sequence[str] = ("", "", "", ""), **settings: str
) -> AsyncIterator[list[Broker]]:
    """Over one directory; `settings` have underscores for dots."""
    named = SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}
    async with AsyncExitStack() as stack:
        started = [
            await stack.enter_async_context(
                Broker(
                    BrokerOptions(
                        port=0, data=data, shared=True, node_id=node_id, settings={**named, "broker.rack": rack}
                    )
                )
            )
            for node_id, rack in zip(range(1, number + 1), racks, strict=False)
        ]
        await so(lambda: all(is_settled(broker, number) for broker in started))
        yield started


def is_settled(broker: Broker, number: int) -> bool:
    assert isinstance(broker.store, ClusterStore)
    return broker.store.image.settled and len(broker.store.image.nodes) == number


async def create(peer: Peer, wanted: CreatableTopic) -> tuple[int, int]:
    """Error code and replication factor."""
    (made,) = (await peer.ask(CreateTopicsRequest(topics=[wanted]), 7, CreateTopicsResponse)).topics
    return made.error_code, made.replication_factor


def topic(name: str, factor: int, *, partitions: int = 3, **configs: str) -> CreatableTopic:
    entries = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=entries)


def assigned(name: str, *replicas: list[int]) -> CreatableTopic:
    rows = [CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in enumerate(replicas)]
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=rows)


async def topic_metadata(peer: Peer, name: str) -> MetadataResponseTopic:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    (answer,) = (await peer.ask(request, 12, MetadataResponse)).topics
    return answer


async def reassign(
    peer: Peer, name: str, wanted: dict[int, list[int] | None], *, may_change_factor: bool = True
) -> list[int]:
    """The error codes, by partition in order."""
    rows = [ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in wanted.items()]
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_change_factor, topics=[ReassignableTopic(name=name, partitions=rows)]
    )
    answer = await peer.ask(request, 1, AlterPartitionReassignmentsResponse)
    assert answer.error_code == ErrorCode.NONE
    return [partition.error_code for partition in answer.responses[0].partitions]


async def elect(peer: Peer, name: str, partitions: list[int], kind: int = 0) -> list[int]:
    request = ElectLeadersRequest(
        election_type=kind, topic_partitions=[TopicPartitions(topic=name, partitions=partitions)]
    )
    answer = await peer.ask(request, 2, ElectLeadersResponse)
    return [partition.error_code for partition in answer.replica_election_results[0].partition_result]


async def test_a_topic_has_as_many_replicas_as_it_is_asked_for_and_all_of_them_are_in_sync(tmp_path: Path) -> None:
    async with brokers(tmp_path) as running, talking_to(running[0]) as peer:
        assert await create(peer, topic("orders", 3)) == (ErrorCode.NONE, 3)
        for broker in running:
            await so(lambda broker=broker: broker.topics.named("orders") is not None)  # type: ignore[misc]
            async with talking_to(broker) as other:
                answer = await topic_metadata(other, "orders")
                for partition in answer.partitions:
                    assert sorted(partition.replica_nodes) == sorted(partition.isr_nodes) == [1, 2, 3]
                    assert partition.leader_id == partition.replica_nodes[0]
                request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")])
                (described,) = (await other.ask(request, 0, DescribeTopicPartitionsResponse)).topics
                assert [partition.replica_nodes for partition in described.partitions] == [
                    partition.replica_nodes for partition in answer.partitions
                ]
        assert sorted(leaders(running[0], "orders")) == [1, 2, 3]


async def test_a_replication_factor_over_the_number_of_brokers_is_refused_as_in_kafka(tmp_path: Path) -> None:
    async with brokers(tmp_path, 2, default_replication_factor="2") as running, talking_to(running[0]) as peer:
        assert await create(peer, topic("orders", 3)) == (ErrorCode.INVALID_REPLICATION_FACTOR, -1)
        assert await create(peer, topic("orders", 0)) == (ErrorCode.INVALID_REPLICATION_FACTOR, -1)
        assert await create(peer, topic("orders", -2)) == (ErrorCode.INVALID_REPLICATION_FACTOR, -1)
        assert await create(peer, topic("orders", -1)) == (ErrorCode.NONE, 2)
        assert await create(peer, assigned("bills", [1, 3])) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, -1)
        assert await create(peer, assigned("bills", [1, 1])) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, -1)
        assert await create(peer, assigned("bills", [1, 2], [])) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, -1)
        assert await create(peer, assigned("bills", [1, 2], [1])) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, -1)
        assert await create(peer, assigned("bills", [2, 1], [1, 2])) == (ErrorCode.NONE, 2)
        assert leaders(running[0], "bills") == [2, 1]


async def test_a_topic_gets_all_its_replicas_while_a_broker_is_away(tmp_path: Path) -> None:
    # As in Kafka: a program that asks for three replicas works while one of three brokers restarts.
    async with brokers(tmp_path) as running, talking_to(running[0]) as peer:
        await create(peer, topic("bills", 3, partitions=1))
        await running[2].stop()
        await so(lambda: len(running[0].leadership.nodes) == 2)
        assert await create(peer, topic("orders", 3)) == (ErrorCode.NONE, 3)
        for partition in (await topic_metadata(peer, "orders")).partitions:
            assert (sorted(partition.replica_nodes), sorted(partition.isr_nodes)) == ([1, 2, 3], [1, 2])
            assert partition.offline_replicas == [3]
            assert partition.leader_id in (1, 2)
        more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="bills", count=2, assignments=None)])
        assert (await peer.ask(more, 3, CreatePartitionsResponse)).results[0].error_code == ErrorCode.NONE
        assert await create(peer, topic("more", 4)) == (ErrorCode.INVALID_REPLICATION_FACTOR, -1)
        assert await create(peer, assigned("late", [3, 1])) == (ErrorCode.NONE, 2)
        assert await create(peer, assigned("never", [3])) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, -1)
        assert await reassign(peer, "orders", {0: [3, 2, 1]}) == [ErrorCode.NONE]
        async with Broker(BrokerOptions(port=0, data=tmp_path, shared=True, node_id=3, settings=SETTINGS)):
            await so(lambda: len(running[0].leadership.nodes) == 3)
            for partition in (await topic_metadata(peer, "orders")).partitions:
                assert sorted(partition.isr_nodes) == [1, 2, 3]


async def test_a_topic_that_is_made_by_asking_for_it_has_the_default_replication_factor(tmp_path: Path) -> None:
    async with brokers(tmp_path, 2, default_replication_factor="2") as running, talking_to(running[0]) as peer:
        (partition,) = (await topic_metadata(peer, "orders")).partitions
        assert sorted(partition.replica_nodes) == [1, 2]
    async with brokers(tmp_path / "b", 2, default_replication_factor="3") as running, talking_to(running[0]) as peer:
        assert (await topic_metadata(peer, "orders")).error_code == ErrorCode.INVALID_REPLICATION_FACTOR


async def test_new_partitions_have_as_many_replicas_as_the_first_one(tmp_path: Path) -> None:
    async with brokers(tmp_path) as running, talking_to(running[0]) as peer:

        async def grow(count: int, *rows: list[int]) -> int:
            given = [CreatePartitionsAssignment(broker_ids=row) for row in rows] or None
            wanted = CreatePartitionsTopic(name="orders", count=count, assignments=given)
            answer = await peer.ask(CreatePartitionsRequest(topics=[wanted]), 3, CreatePartitionsResponse)
            return answer.results[0].error_code

        await create(peer, topic("orders", 2, partitions=1))
        assert await grow(2, [3]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await grow(2, [3, 1]) == ErrorCode.NONE
        assert await grow(4) == ErrorCode.NONE
        answer = await topic_metadata(peer, "orders")
        assert answer.partitions[1].replica_nodes == [3, 1]
        assert [len(partition.replica_nodes) for partition in answer.partitions] == [2, 2, 2, 2]


async def test_a_change_that_another_broker_just_made_is_not_undone(tmp_path: Path) -> None:
    # An administrator's requests go to any broker, one right after the answer to the other.
    async with brokers(tmp_path, 2) as (first, second), talking_to(first) as one, talking_to(second) as other:
        await create(one, topic("orders", 2, partitions=1))
        await so(lambda: second.topics.named("orders") is not None)
        for broker in (first, second):
            assert isinstance(broker.leadership, DirectoryCluster)
            broker.leadership.look_every_s = 3_600  # they follow nothing by themselves
        await asyncio.sleep(0.1)  # the look that is due
        assert await set_config(one, 2, "orders", "retention.ms", "1000") == ErrorCode.NONE
        assert await set_config(other, 2, "orders", "segment.ms", "2000") == ErrorCode.NONE
        assert await set_config(one, 4, "", "message.max.bytes", "3000") == ErrorCode.NONE
        assert await set_config(other, 4, "", "log.retention.ms", "4000") == ErrorCode.NONE
        assert await set_config(one, 32, "g", "consumer.session.timeout.ms", "50000") == ErrorCode.NONE
        assert await set_config(other, 32, "g", "consumer.heartbeat.interval.ms", "6000") == ErrorCode.NONE
        assert await set_config(one, 2, "orders", "flush.ms", "5") == ErrorCode.NONE
        more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=2, assignments=None)])
        assert (await other.ask(more, 3, CreatePartitionsResponse)).results[0].error_code == ErrorCode.NONE
        assert await set_config(one, 2, "orders", "preallocate", "false") == ErrorCode.NONE
        assert isinstance(first.store, ClusterStore)
        kept = first.store.image.named("orders")
        assert kept is not None
        assert kept.partitions == 2
        assert kept.configs == {
            "retention.ms": "1000",
            "segment.ms": "2000",
            "flush.ms": "5",
            "preallocate": "false",
        }
        assert first.store.image.configs["broker"][""] == {"message.max.bytes": "3000", "log.retention.ms": "4000"}
        assert set(first.store.image.configs["group"]["g"]) == {
            "consumer.session.timeout.ms",
            "consumer.heartbeat.interval.ms",
        }


async def set_config(peer: Peer, kind: int, name: str, key: str, value: str) -> int:
    change = AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[AlterableConfig(name=key, config_operation=0, value=value)]
    )
    answer = await peer.ask(IncrementalAlterConfigsRequest(resources=[change]), 1, IncrementalAlterConfigsResponse)
    return answer.responses[0].error_code


async def test_a_reassignment_moves_leadership_and_is_listed_until_it_has(tmp_path: Path) -> None:
    async with brokers(tmp_path) as running, talking_to(running[1]) as peer:
        await create(peer, assigned("orders", [1], [1, 2]))
        assert await create(peer, assigned("bills", [1, 2], [1, 2])) == (ErrorCode.NONE, 2)
        await so(lambda: leaders(running[0], "bills") == [1, 1])
        log = running[0].partition("bills", 0)
        assert isinstance(log, SegmentedLog)
        log.compacting = True  # so that the reassignment is in progress
        assert await reassign(peer, "bills", {0: [3, 2], 1: [2, 1]}) == [ErrorCode.NONE, ErrorCode.NONE]
        listed = await peer.ask(ListPartitionReassignmentsRequest(), 0, ListPartitionReassignmentsResponse)
        (one,) = listed.topics[0].partitions
        assert (one.partition_index, one.replicas) == (0, [3, 2, 1])
        assert (one.adding_replicas, one.removing_replicas) == ([3], [1])
        log.compacting = False
        await so(lambda: all(leaders(broker, "bills") == [3, 1] for broker in running[1:]))
        over = await peer.ask(ListPartitionReassignmentsRequest(), 0, ListPartitionReassignmentsResponse)
        assert over.topics == []
        answer = await topic_metadata(peer, "bills")
        assert [partition.replica_nodes for partition in answer.partitions] == [[3, 2], [2, 1]]
        assert running[2].partition("bills", 0) is not None, "it takes records"


async def test_a_reassignment_that_cannot_be_is_refused_with_kafkas_codes(tmp_path: Path) -> None:
    async with brokers(tmp_path, 2) as running, talking_to(running[0]) as peer:
        await create(peer, assigned("orders", [1, 2]))
        assert await reassign(peer, "orders", {7: [1]}) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await reassign(peer, "none", {0: [1]}) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        for bad in ([], [1, 1], [1, 9], [-1]):
            assert await reassign(peer, "orders", {0: bad}) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
        assert await reassign(peer, "orders", {0: None}) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
        code = ErrorCode.INVALID_REPLICATION_FACTOR
        assert await reassign(peer, "orders", {0: [2]}, may_change_factor=False) == [code]
        assert await reassign(peer, "orders", {0: [2, 1]}, may_change_factor=False) == [ErrorCode.NONE]
        asked = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 9]) for name in ("orders", "none")]
        request = ListPartitionReassignmentsRequest(topics=asked)
        assert (await peer.ask(request, 0, ListPartitionReassignmentsResponse)).topics == []


async def test_the_replicas_that_a_reassignment_aims_at_are_the_replication_factor(tmp_path: Path) -> None:
    async with brokers(tmp_path) as (first, _, _), talking_to(first) as peer:
        await create(peer, assigned("orders", [1, 2]))
        log = first.partition("orders", 0)
        assert isinstance(log, SegmentedLog)
        log.compacting = True  # so that the reassignment is in progress
        assert await reassign(peer, "orders", {0: [3]}) == [ErrorCode.NONE]
        code = ErrorCode.INVALID_REPLICATION_FACTOR
        assert await reassign(peer, "orders", {0: [3, 2]}, may_change_factor=False) == [code]
        assert await reassign(peer, "orders", {0: [3, 2]}) == [ErrorCode.NONE]
        assert await reassign(peer, "orders", {0: [3]}, may_change_factor=False) == [code]
        assert await reassign(peer, "orders", {0: [3, 1, 2]}, may_change_factor=False) == [code]
        assert await reassign(peer, "orders", {0: [2, 3]}, may_change_factor=False) == [ErrorCode.NONE]
        log.compacting = False


async def test_the_preferred_replica_is_elected(tmp_path: Path) -> None:
    async with brokers(tmp_path) as running, talking_to(running[1]) as peer:
        await create(peer, assigned("orders", [1, 2], [2, 1], [3, 1]))
        await so(lambda: leaders(running[0], "orders") == [1, 2, 3])
        assert await elect(peer, "orders", [0, 9]) == [
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        await reassign(peer, "orders", {0: [2, 1]})
        assert leaders(running[1], "orders") == [1, 2, 3], "as in Kafka, the leader stays while it is a replica"
        assert await elect(peer, "orders", [0], kind=1) == [ErrorCode.ELECTION_NOT_NEEDED]
        assert await elect(peer, "orders", [0, 1]) == [ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED]
        await so(lambda: all(leaders(broker, "orders") == [2, 2, 3] for broker in running))
        await running[2].stop()
        await reassign(peer, "orders", {1: [1, 2]})
        everything = await peer.ask(ElectLeadersRequest(topic_partitions=None), 2, ElectLeadersResponse)
        outcomes = {result.topic: result.partition_result for result in everything.replica_election_results}
        found = [(outcome.partition_id, outcome.error_code) for outcome in outcomes["orders"]]
        assert found == [(1, ErrorCode.NONE), (2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]
        await so(lambda: leaders(running[0], "orders") == [2, 1, 1])


async def produce(peer: Peer, name: str, acks: int) -> int:
    records = bytes(encode_batch([Record(0, 1_000, None, b"x")]))
    data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=records)])
    answer = await peer.ask(ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[data]), 9, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


async def test_acks_of_all_need_the_topics_minimum_of_replicas_in_sync(tmp_path: Path) -> None:
    async with brokers(tmp_path) as running, talking_to(running[0]) as peer:
        made = assigned("orders", [1, 2])
        made.configs = [CreatableTopicConfig(name="min.insync.replicas", value="2")]
        assert await create(peer, made) == (ErrorCode.NONE, 2)
        assert await create(peer, topic("alone", 1, partitions=1, min_insync_replicas="2")) == (ErrorCode.NONE, 1)
        assert await produce(peer, "orders", -1) == ErrorCode.NONE
        await running[1].stop()
        await so(lambda: 2 not in [node.node_id for node in running[0].leadership.nodes])
        assert await produce(peer, "orders", -1) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert await produce(peer, "orders", 1) == ErrorCode.NONE
        [node_id] = leaders(running[0], "alone")
        led_by = running[node_id - 1]  # it may read that the topic was created later than the other broker
        await so(lambda: leaders(led_by, "alone") == [node_id])
        async with talking_to(led_by) as leader:
            assert await produce(leader, "alone", -1) == ErrorCode.NONE, "no more are needed than it has"


async def test_the_offsets_topic_has_replicas_up_to_its_factor_and_every_broker_coordinates(tmp_path: Path) -> None:
    async with brokers(tmp_path, 4, offsets_topic_num_partitions="12") as running, talking_to(running[0]) as peer:
        answer = await topic_metadata(peer, "__consumer_offsets")
        assert {partition.leader_id for partition in answer.partitions} == {1, 2, 3, 4}
        assert all(len(partition.replica_nodes) == len(partition.isr_nodes) == 3 for partition in answer.partitions)
        assert all(partition.replica_nodes[0] == partition.leader_id for partition in answer.partitions)


@pytest.mark.parametrize("kind", [2, -1])
async def test_another_kind_of_election_is_refused(tmp_path: Path, kind: int) -> None:
    async with brokers(tmp_path, 1) as (broker,), talking_to(broker) as peer:
        await create(peer, topic("orders", 1, partitions=1))
        assert await elect(peer, "orders", [0], kind=kind) == [ErrorCode.INVALID_REQUEST]


async def test_a_partition_that_is_compacted_is_given_when_that_is_over_though_the_image_does_not_change(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path, 2) as (first, second), talking_to(first) as peer:
        await create(peer, assigned("orders", [1, 2]))
        log = first.partition("orders", 0)
        assert isinstance(log, SegmentedLog)
        assert isinstance(first.leadership, DirectoryCluster)
        log.compacting = True
        await reassign(peer, "orders", {0: [2, 1]})
        assert await elect(peer, "orders", [0]) == [ErrorCode.NONE]
        await so(lambda: first.partition("orders", 0) is None)
        first.leadership.look_every_s = 3_600  # as over a database, which is read only after a notification
        await asyncio.sleep(0.1)  # the look that is due
        log.compacting = False
        await so(lambda: leaders(second, "orders") == [2])


@pytest.mark.parametrize("how", ["called off", "the other died"])
async def test_a_broker_leads_again_what_it_was_about_to_give(tmp_path: Path, how: str) -> None:
    # Without it, each group of such a coordinator gets NOT_COORDINATOR forever.
    async with brokers(tmp_path, 2) as (first, second), talking_to(first) as peer:
        await create(peer, assigned("orders", [1, 2]))
        assert isinstance(first.store, ClusterStore)
        offsets, orders = first.topics.named("__consumer_offsets"), first.topics.named("orders")
        assert offsets is not None
        assert orders is not None
        mine = next(n for n in range(4) if first.leadership.leader(offsets, n).node_id == 1)
        given = [PartitionId(offsets.topic_id, mine), PartitionId(orders.topic_id, 0)]
        log = first.partition("orders", 0)
        assert log is not None
        with first.store.files.writing:  # so that what is given waits for the record
            log.append(encode_batch([Record(0, 1_000, None, b"x")]), log.leader_epoch)
            first.writer.current()
            first.leadership.reassign(dict.fromkeys(given, (2,)), [])
            await so(lambda: first.partition("orders", 0) is None)
            if how == "called off":
                second.leadership.reassign({}, given)
            else:
                second.groups.resign()
                await second.leadership.leave()
        await so(lambda: first.partition("orders", 0) is not None)
        await so(lambda: [shard.ready for shard in first.groups if shard.partition == mine] == [True])
        assert await produce(peer, "orders", -1) == ErrorCode.NONE
