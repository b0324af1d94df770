"""Groups over the wire: what the shell adds to the coordinator (shards, durability, topics that exist, restarts)."""

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.log import MemoryStore
from kohort.log.api import Pending
from kohort.model import UUID
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.broker.conftest import QUICK, Connect, MakeBroker
from tests.broker.peer import Peer, talking_to, until

METADATA = encode_subscription(Subscription(topics=["orders"]), 1)


def join_request(group: str, member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=METADATA)],
    )


async def join(peer: Peer, group: str = "g", version: int = 9) -> tuple[str, int]:
    """Join alone, lead, and sync: member id and generation."""
    answer = await peer.ask(join_request(group), version, JoinGroupResponse)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = await peer.ask(join_request(group, answer.member_id), version, JoinGroupResponse)
    assert answer.error_code == ErrorCode.NONE
    share = encode_assignment(Assignment(), 1)
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=answer.generation_id,
        member_id=answer.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=answer.member_id, assignment=share)],
    )
    synced = await peer.ask(sync, min(version, 5), SyncGroupResponse)
    assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, share)
    return answer.member_id, answer.generation_id


def commit_request(
    offset: int, group: str = "g", member: tuple[str, int] = ("", -1), topic: str = "orders", partitions: int = 1
) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(partition_index=i, committed_offset=offset + i) for i in range(partitions)]
    return OffsetCommitRequest(
        group_id=group,
        member_id=member[0],
        generation_id_or_member_epoch=member[1],
        topics=[OffsetCommitRequestTopic(name=topic, partitions=rows)],
    )


def codes(answer: OffsetCommitResponse) -> list[int]:
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


async def committed(peer: Peer, group: str = "g") -> int:
    request = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0])])
    return (await peer.ask(request, 7, OffsetFetchResponse)).topics[0].partitions[0].committed_offset


@pytest.fixture(autouse=True)
def orders(request: pytest.FixtureRequest) -> None:
    if "broker" in request.fixturenames:
        request.getfixturevalue("broker").topics.create("orders", 4)


@pytest.mark.parametrize("version", range(10))
async def test_every_version_joins_syncs_heartbeats_and_commits(peer: Peer, version: int) -> None:
    member = await join(peer, version=version)
    beat = HeartbeatRequest(group_id="g", member_id=member[0], generation_id=member[1])
    assert (await peer.ask(beat, min(version, 4), HeartbeatResponse)).error_code == ErrorCode.NONE
    for commit_version in range(2, 10):
        answer = await peer.ask(commit_request(commit_version, member=member), commit_version, OffsetCommitResponse)
        assert codes(answer) == [ErrorCode.NONE]
        assert await committed(peer) == commit_version


async def test_partitions_that_do_not_exist_are_refused_and_the_others_committed(peer: Peer) -> None:
    request = commit_request(5, partitions=6)
    request.topics += commit_request(5, topic="nobody").topics
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(await peer.ask(request, 8, OffsetCommitResponse)) == [0, 0, 0, 0, unknown, unknown, unknown]
    assert await committed(peer) == 5


async def test_commits_and_fetches_by_topic_id(peer: Peer, broker: Broker) -> None:
    topic = broker.topics.named("orders")
    assert topic is not None
    request = commit_request(7, topic="")
    request.topics[0].topic_id = topic.topic_id
    request.topics.append(
        OffsetCommitRequestTopic(topic_id=UUID(int=5), partitions=[OffsetCommitRequestPartition(committed_offset=1)])
    )
    assert codes(await peer.ask(request, 10, OffsetCommitResponse)) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]
    wanted = [OffsetFetchRequestTopics(topic_id=i, partition_indexes=[0]) for i in (UUID(int=5), topic.topic_id)]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=wanted)]
    (group,) = (await peer.ask(OffsetFetchRequest(groups=groups), 10, OffsetFetchResponse)).groups
    found = {t.topic_id: (t.partitions[0].committed_offset, t.partitions[0].error_code) for t in group.topics}
    assert found == {topic.topic_id: (7, ErrorCode.NONE), UUID(int=5): (-1, ErrorCode.UNKNOWN_TOPIC_ID)}


async def test_groups_of_all_shards_are_listed_described_and_fetched_together(peer: Peer, broker: Broker) -> None:
    names = [f"group-{i}" for i in range(20)]
    assert len({broker.groups.shard(name) for name in names}) > 10
    for name in names:
        assert codes(await peer.ask(commit_request(3, name), 8, OffsetCommitResponse)) == [0]
    listed = await peer.ask(ListGroupsRequest(), 5, ListGroupsResponse)
    assert {group.group_id for group in listed.groups} == set(names)
    described = await peer.ask(DescribeGroupsRequest(groups=names), 5, DescribeGroupsResponse)
    assert [(group.group_id, group.group_state) for group in described.groups] == [(n, "Empty") for n in names]
    wanted = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    fetched = await peer.ask(OffsetFetchRequest(groups=wanted), 9, OffsetFetchResponse)
    assert [group.topics[0].partitions[0].committed_offset for group in fetched.groups] == [3] * 20


@pytest.mark.parametrize("version", range(7))
async def test_every_version_finds_this_broker_as_coordinator(peer: Peer, broker: Broker, version: int) -> None:
    request = FindCoordinatorRequest(key_type=0)
    if version < 4:
        request.key = "g"
        answer = await peer.ask(request, version, FindCoordinatorResponse)
        assert (answer.error_code, answer.node_id, answer.port) == (0, broker.node_id, broker.port)
    else:
        request.coordinator_keys = ["g", "h"]
        found = (await peer.ask(request, version, FindCoordinatorResponse)).coordinators
        assert [(coordinator.key, coordinator.error_code, coordinator.port) for coordinator in found] == [
            ("g", 0, broker.port),
            ("h", 0, broker.port),
        ]


async def test_a_parked_join_is_answered_and_what_was_asked_behind_it_follows_in_order(
    connect: Connect, start_broker: MakeBroker
) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings={"group.initial.rebalance.delay.ms": "200"}))
    peer = Peer(*await asyncio.open_connection("127.0.0.1", broker.port))
    peer.send(join_request("g"), 3)
    peer.send(ListGroupsRequest(), 4)
    assert (await peer.answer(JoinGroupResponse)).error_code == ErrorCode.NONE
    assert [group.group_id for group in (await peer.answer(ListGroupsResponse)).groups] == ["g"]
    peer.writer.close()


async def test_groups_and_offsets_survive_a_restart_and_the_member_continues(
    tmp_path: Path, start_broker: MakeBroker
) -> None:
    options = BrokerOptions(port=0, data=tmp_path, settings=QUICK)
    first = await start_broker(options)
    first.topics.create("orders", 4)
    peer = Peer(*await asyncio.open_connection("127.0.0.1", first.port))
    member = await join(peer)
    assert codes(await peer.ask(commit_request(42, member=member), 8, OffsetCommitResponse)) == [0]
    await first.stop()
    peer.writer.close()
    second = await start_broker(options)
    peer = Peer(*await asyncio.open_connection("127.0.0.1", second.port))
    beat = HeartbeatRequest(group_id="g", member_id=member[0], generation_id=member[1])
    # A heartbeat during a load is answered without an error too, as in Kafka.
    assert (await peer.ask(beat, 4, HeartbeatResponse)).error_code == ErrorCode.NONE
    await until(lambda: second.groups.shard("g").ready)
    assert (await peer.ask(beat, 4, HeartbeatResponse)).error_code == ErrorCode.NONE
    assert await committed(peer) == 42
    peer.writer.close()


class Gate(MemoryStore):
    """A store whose syncs wait for a permit, or fail."""

    def __init__(self) -> None:
        super().__init__()
        self.permit = threading.Event()
        self.permit.set()
        self.broken = False

    def sync(self, pending: Pending) -> None:
        assert self.permit.wait(20)
        if self.broken:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().sync(pending)


async def test_a_commit_is_not_acknowledged_and_not_read_before_it_is_on_disk(start_broker: MakeBroker) -> None:
    store = Gate()
    broker = await start_broker(BrokerOptions(port=0, settings=QUICK), store)
    broker.topics.create("orders", 4)
    writer, reader = [Peer(*await asyncio.open_connection("127.0.0.1", broker.port)) for _ in range(2)]
    store.permit.clear()
    writer.send(commit_request(9), 8)
    # A second connection asks while the sync hangs: were it answered, a crash could take back what it read.
    reader.send(
        OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]), 7
    )
    reader.send(ListGroupsRequest(), 4)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await asyncio.gather(writer.reader.readexactly(1), reader.reader.readexactly(1))
    store.permit.set()
    assert codes(await writer.answer(OffsetCommitResponse)) == [0]
    assert (await reader.answer(OffsetFetchResponse)).topics[0].partitions[0].committed_offset in (9, -1)
    for peer in (writer, reader):
        peer.writer.close()


async def test_offsets_are_answered_by_the_requested_ids_though_a_topic_is_deleted_and_created_again_meanwhile(
    start_broker: MakeBroker,
) -> None:
    store = Gate()
    broker = await start_broker(BrokerOptions(port=0, settings=QUICK), store)
    orders, payments = broker.topics.create("orders", 4), broker.topics.create("payments", 4)
    writer, reader, other = [Peer(*await asyncio.open_connection("127.0.0.1", broker.port)) for _ in range(3)]
    store.permit.clear()
    writer.send(commit_request(9), 8)
    await until(lambda: broker.groups.shard("g").group("g") is not None)
    wanted = [OffsetFetchRequestTopics(topic_id=each.topic_id, partition_indexes=[0]) for each in (orders, payments)]
    reader.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=wanted)]), 10)
    await other.ask(FindCoordinatorRequest(key="g"), 3, FindCoordinatorResponse)  # now that request has arrived, too
    for topic in (orders, payments):
        broker.topics.delete(topic)
    broker.topics.create("payments", 4)
    store.permit.set()
    assert codes(await writer.answer(OffsetCommitResponse)) == [0]
    (group,) = (await reader.answer(OffsetFetchResponse)).groups
    assert {topic.topic_id for topic in group.topics} == {orders.topic_id, payments.topic_id}
    for peer in (writer, reader, other):
        peer.writer.close()


async def test_a_commit_that_cannot_be_written_is_refused_and_forgotten(start_broker: MakeBroker) -> None:
    store = Gate()
    broker = await start_broker(BrokerOptions(port=0, settings=QUICK), store)
    broker.topics.create("orders", 4)
    peer = Peer(*await asyncio.open_connection("127.0.0.1", broker.port))
    assert codes(await peer.ask(commit_request(1), 8, OffsetCommitResponse)) == [0]
    store.broken = True
    assert codes(await peer.ask(commit_request(2), 8, OffsetCommitResponse)) == [ErrorCode.NOT_COORDINATOR]
    store.broken = False
    assert await committed(peer) == 1, "the shard must be what the log holds"
    assert codes(await peer.ask(commit_request(3), 8, OffsetCommitResponse)) == [0]
    assert await committed(peer) == 3
    peer.writer.close()


async def test_a_log_of_many_batches_in_many_segments_is_loaded_whole(start_broker: MakeBroker, tmp_path: Path) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data", settings=QUICK | {"offsets.topic.segment.bytes": "1024"})
    first = await start_broker(options)
    first.topics.create("orders", 20)
    async with talking_to(first) as peer:
        for partition in range(20):  # each commit is a batch of its own
            row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=100 + partition)
            topics = [OffsetCommitRequestTopic(name="orders", partitions=[row])]
            request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=topics)
            assert codes(await peer.ask(request, 8, OffsetCommitResponse)) == [ErrorCode.NONE]
    await first.stop()
    again = await start_broker(options)
    await until(lambda: again.groups.shard("g").ready)
    async with talking_to(again) as peer:
        wanted = [OffsetFetchRequestTopic(name="orders", partition_indexes=list(range(20)))]
        answer = await peer.ask(OffsetFetchRequest(group_id="g", topics=wanted), 7, OffsetFetchResponse)
    assert [row.committed_offset for row in answer.topics[0].partitions] == list(range(100, 120))
