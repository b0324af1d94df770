"""Brokers of a cluster die, are suspended, stop and return; groups, offsets and records stay as they were."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kohort import Admin, Consumer, ConsumerRecord, NewTopic, OffsetSpec, Producer, TopicPartition
from kohort.broker.groups.coordinator import group_partition
from kohort.errors import ErrorCode
from kohort.lab.apache_kafka import free_ports
from kohort.log.cluster.image import OFFSETS_TOPIC
from kohort.log.cluster.locks import FileLock
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.current_leader import LeaderIdAndEpoch
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.peer import connected
from tests.cluster.conftest import RunningCluster, StartCluster
from tests.interop.process import until

GROUP = "readers"
PARTITIONS = 6


def coordinator(cluster: RunningCluster, group: str = GROUP) -> int:
    image = cluster.image
    topic = image.named(OFFSETS_TOPIC)
    assert topic is not None
    return image.leaders[topic.topic_id][group_partition(group, topic.partitions)].node_id


async def topic_of(cluster: RunningCluster, name: str = "t", partitions: int = PARTITIONS) -> None:
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic(name, partitions, 1)])


class Readers:
    """Members of one group that read all the time and commit what they read."""

    def __init__(self, cluster: RunningCluster, count: int, **options: Any) -> None:
        self._options: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap,
            "group_id": GROUP,
            "enable_auto_commit": False,
        }
        self._options |= {"auto_offset_reset": "earliest", **options}
        self._count = count
        self.read: list[tuple[str, int, int, bytes | None]] = []
        self.committed = 0
        self.assigned = 0
        self.lost = 0
        self._polled = asyncio.Condition()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Readers]:
        async with AsyncExitStack() as stack:
            tasks = []
            for number in range(self._count):
                consumer = Consumer(**self._options, client_id=f"reader-{number}")
                await stack.enter_async_context(consumer)
                consumer.subscribe(["t"], on_assigned=self._on_assigned, on_lost=self._on_lost)
                tasks.append(asyncio.create_task(self._run(consumer)))
            try:
                await self.until_owned()
                yield self
                for task in tasks:
                    if task.done():
                        task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def until_owned(self) -> None:
        await self._until(lambda: self.assigned >= PARTITIONS)

    async def until_read(self, count: int) -> None:
        await self._until(lambda: len({row[:3] for row in self.read}) >= count)

    async def until_committed(self, count: int) -> None:
        await self._until(lambda: self.committed >= count)

    async def _until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(30), self._polled:
            await self._polled.wait_for(reached)

    def _on_assigned(self, partitions: Any) -> None:
        self.assigned += len(partitions)

    def _on_lost(self, partitions: Any) -> None:
        self.lost += len(partitions)

    async def _run(self, consumer: Consumer) -> None:
        while True:
            records = await consumer.poll(timeout=0.2)
            self.read += [(record.topic, record.partition, record.offset, record.value) for record in records]
            await self._tell()
            await consumer.commit()
            self.committed += len(records)
            await self._tell()

    async def _tell(self) -> None:
        async with self._polled:
            self._polled.notify_all()


async def produce(cluster: RunningCluster, first: int, count: int) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        sent = [
            await producer.send("t", f"{number}".encode(), partition=number % PARTITIONS)
            for number in range(first, first + count)
        ]
        await asyncio.gather(*sent)


async def generation(cluster: RunningCluster) -> tuple[str, int]:
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        described = (await admin.describe_groups([GROUP]))[GROUP]
        return str(described.state), len(described.members)


@pytest.mark.parametrize(
    "protocol", [pytest.param("classic", marks=pytest.mark.long("the same under another protocol")), "consumer"]
)
async def test_a_killed_coordinator_costs_no_rebalance_no_record_and_no_commit(
    start_over_either: StartCluster, protocol: str
) -> None:
    with start_over_either() as cluster:
        await topic_of(cluster)
        async with Readers(cluster, 3, group_protocol=protocol).running() as readers:
            await produce(cluster, 0, 300)
            await readers.until_read(300)
            owned = readers.assigned
            killed = coordinator(cluster)
            cluster.signal(killed, signal.SIGKILL)
            cluster.without(killed)
            await produce(cluster, 300, 300)
            await readers.until_read(600)
            assert (readers.assigned, readers.lost) == (owned, 0), "nobody's partitions moved"
            assert await generation(cluster) == ("Stable", 3)
            await readers.until_committed(600)
        values = [row[3] for row in readers.read]
        assert len(values) == len(set(values)) == 600, "nothing is read twice by a group that did not rebalance"
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            assert {row.lag for row in await admin.group_lag(GROUP)} == {0}


async def test_a_broker_suspended_past_its_lease_is_killed_and_replaced(start_cluster: StartCluster) -> None:
    with start_cluster(broker_session_timeout_ms="1000") as cluster:
        await topic_of(cluster)
        async with Readers(cluster, 2).running() as readers:
            await produce(cluster, 0, 60)
            await readers.until_read(60)
            still = coordinator(cluster)
            cluster.signal(still, signal.SIGSTOP)
            cluster.without(still)
            assert f"broker {still} (process " in "\n".join(cluster.process.output().splitlines())
            await produce(cluster, 60, 60)
            await readers.until_read(120)
            assert await generation(cluster) == ("Stable", 2)


async def test_a_broker_suspended_with_the_images_lock_does_not_block_the_others(
    start_cluster: StartCluster,
) -> None:
    with start_cluster(broker_session_timeout_ms="1000") as cluster:
        await topic_of(cluster)
        held = FileLock(cluster.data / "cluster.lock")
        try:
            still = cluster.process_id(1)
            cluster.signal(1, signal.SIGSTOP)
            cluster.signal(2, signal.SIGKILL)
            until(20.0, "the one that stands still is ended", lambda: "did not run for" in cluster.process.output())
            until(5.0, "its process ends", lambda: not Path(f"/proc/{still}/root").exists())
        finally:
            held.close()  # as the kernel does when the process has ended
        cluster.whole(1)
        await produce(cluster, 0, 60)


async def test_all_brokers_are_restarted_under_load_without_losses(start_cluster: StartCluster) -> None:
    with start_cluster("--restart") as cluster:
        await topic_of(cluster)
        async with Readers(cluster, 3).running() as readers:
            owned, first = readers.assigned, 0
            for node_id in (1, 2, 3):
                writing = asyncio.create_task(produce(cluster, first, 120))
                before = cluster.process_id(node_id)
                cluster.signal(node_id, signal.SIGTERM)
                await writing
                first += 120
                await asyncio.to_thread(cluster.came_back, node_id, before)
            await readers.until_read(first)
            assert (readers.assigned, readers.lost) == (owned, 0)
        values = [row[3] for row in readers.read]
        assert sorted(map(int, filter(None, values))) == list(range(first)), "each record once"


async def test_a_broker_that_comes_back_leads_its_share_again(start_cluster: StartCluster) -> None:
    with start_cluster("--restart") as cluster:
        await topic_of(cluster, partitions=9)
        before = cluster.process_id(2)
        cluster.signal(2, signal.SIGKILL)
        cluster.without(2)
        cluster.came_back(2, before)
        image = cluster.image
        for leaders in image.leaders.values():
            assert sum(leader.node_id == 2 for leader in leaders) >= 2
        await produce(cluster, 0, 18)


async def test_the_wrong_broker_names_the_right_one(start_cluster: StartCluster) -> None:
    with start_cluster() as cluster:
        await topic_of(cluster)
        image = cluster.image
        topic = image.named("t")
        assert topic is not None
        leader = image.leaders[topic.topic_id][0]
        wrong = next(number for number in image.nodes if number != leader.node_id)
        async with connected(cluster.address(wrong)) as peer:
            data = PartitionProduceData(index=0, records=encode_batch([Record(0, 0, None, b"x", ())]))
            request = ProduceRequest(
                acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
            )
            async with asyncio.timeout(5):
                while True:  # it follows the image within milliseconds, and knows no such topic before
                    produced = await peer.ask(request, 12, ProduceResponse)
                    if produced.responses[0].partition_responses[0].error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                        break
            (refused,) = produced.responses[0].partition_responses
            assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert refused.current_leader == LeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=leader.epoch)
            older = await peer.ask(request, 9, ProduceResponse)
            assert older.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            (there,) = produced.node_endpoints
            assert f"{there.host}:{there.port}" == cluster.address(leader.node_id)
            away = next(number for number in range(100) if coordinator(cluster, f"g{number}") != wrong)
            beat = await peer.ask(HeartbeatRequest(group_id=f"g{away}", member_id="m"), 4, HeartbeatResponse)
            assert beat.error_code == ErrorCode.NOT_COORDINATOR
            found = await peer.ask(
                FindCoordinatorRequest(key_type=0, coordinator_keys=[f"g{away}"]), 6, FindCoordinatorResponse
            )
            assert found.coordinators[0].node_id == coordinator(cluster, f"g{away}")


async def test_topics_created_changed_and_deleted_at_one_broker_change_at_all_brokers(
    start_cluster: StartCluster,
) -> None:
    with start_cluster() as cluster:
        for node_id in (1, 2, 3, 1):
            async with Admin(bootstrap_servers=cluster.address(node_id)) as admin:
                await admin.create_topics([NewTopic("t", PARTITIONS, 1)])
            await produce(cluster, 0, 12)
            async with Admin(bootstrap_servers=cluster.address(node_id % 3 + 1)) as admin:
                assert await admin.list_topics() == ["t"]
                await admin.create_partitions("t", PARTITIONS + 3)
                ends = await admin.list_offsets(
                    {TopicPartition("t", number): OffsetSpec.LATEST for number in range(PARTITIONS + 3)}
                )
                assert sum(end.offset for end in ends.values() if end is not None) == 12, (
                    "nothing of an earlier topic of that name"
                )
                await admin.delete_topics(["t"])
            until(5, "the files are gone", lambda: cluster.image.named("t") is None)


async def test_a_suspended_new_leader_does_not_block_reading_other_partitions(
    start_cluster: StartCluster,
) -> None:
    # With a new leader a consumer asks whether its log has what was read (KIP-320), of all partitions that moved.
    with start_cluster(broker_session_timeout_ms="120000") as cluster:
        await topic_of(cluster)
        partitions = [TopicPartition("t", number) for number in range(PARTITIONS)]
        # It may also ask the suspended broker for metadata; that must not take its 30 s.
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "request_timeout_ms": 3_000}
        async with Consumer(bootstrap_servers=cluster.bootstrap, **options) as consumer:
            consumer.assign(partitions)
            await produce(cluster, 0, PARTITIONS)
            await read(consumer, PARTITIONS)
            topic = cluster.image.named("t")
            assert topic is not None
            before = cluster.image.leaders[topic.topic_id]
            cluster.signal(3, signal.SIGSTOP)
            cluster.signal(1, signal.SIGKILL)
            cluster.without(1)
            after = cluster.image.leaders[topic.topic_id]
            moved = {now.node_id: at for at, (was, now) in enumerate(zip(before, after, strict=True)) if was != now}
            assert set(moved) == {2, 3}
            async with Producer(bootstrap_servers=cluster.address(2)) as producer:
                await producer.send("t", b"there", partition=moved[2])
            (record,) = await read(consumer, 1)
            assert (record.partition, record.value) == (moved[2], b"there")
            cluster.wake()


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(40):
        while len(records) < count:
            records += await consumer.poll(timeout=0.2)
    return records


async def test_a_broker_that_is_restarted_listens_where_it_did_and_advertises_what_it_did(
    start_cluster: StartCluster,
) -> None:
    (port,) = free_ports(1)
    options = ("--listen", f"127.0.0.1:{port}", "--advertise", "one.example:9092", "--restart")
    with start_cluster(*options, brokers=1) as cluster:
        assert cluster.bootstrap == "one.example:9092"
        before = cluster.process_id(1)
        cluster.signal(1, signal.SIGKILL)
        until(30.0, "the broker comes back", lambda: cluster.process_id(1) != before)
        until(30.0, "it serves", lambda: cluster.process.output().count("clients connect to one.example:9092") == 2)
        async with connected(f"127.0.0.1:{port}") as peer:
            metadata = await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        assert [(node.host, node.port) for node in metadata.brokers] == [("one.example", 9092)]
