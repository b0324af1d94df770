"""Responses of a coordinator that is loading, and of a broker that is stopping."""

import asyncio
import threading
from pathlib import Path

from kohort.broker import BrokerOptions
from kohort.errors import ErrorCode
from kohort.log import MemoryStore
from kohort.log.api import Pending
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.peer import talking_to, until
from tests.hostile.error_inputs import codes

PARTITIONS = 100


def commit(metadata: str = "") -> OffsetCommitRequest:
    rows = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata=metadata)
        for index in range(PARTITIONS)
    ]
    topics = [OffsetCommitRequestTopic(name="orders", partitions=rows)]
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=topics)


ASKED: tuple[tuple[Message, int, type[Message]], ...] = (
    (JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer"), 3, JoinGroupResponse),
    (SyncGroupRequest(group_id="g", member_id="m"), 3, SyncGroupResponse),
    (LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]), 4, LeaveGroupResponse),
    (commit(), 8, OffsetCommitResponse),
    (OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="orders")]), 7, OffsetFetchResponse),
    (
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1),
        1,
        ConsumerGroupHeartbeatResponse,
    ),
    (ListGroupsRequest(), 4, ListGroupsResponse),
    (DescribeGroupsRequest(groups=["g"]), 5, DescribeGroupsResponse),
    (DeleteGroupsRequest(groups_names=["g"]), 2, DeleteGroupsResponse),
)
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


async def test_while_a_group_loads_requests_wait_but_heartbeats_are_accepted(
    tmp_path: Path, start_broker: MakeBroker
) -> None:
    options = BrokerOptions(port=0, data=tmp_path, settings=QUICK)
    first = await start_broker(options)
    first.topics.create("orders", PARTITIONS)
    async with talking_to(first) as peer:
        for _ in range(20):  # 8 MB: loaded in many slices, between which requests are handled
            assert codes(await peer.ask(commit("x" * 4_000), 8, OffsetCommitResponse)) == set()
    await first.stop()
    second = await start_broker(options)
    async with talking_to(second) as peer:
        peer.send(BEAT, 4)
        for request, version, _ in ASKED:
            peer.send(request, version)
        # As in Kafka: the group is not loaded yet, and afterwards the member has a whole session.
        assert codes(await peer.answer(HeartbeatResponse)) == set()
        for _, _, kind in ASKED:
            assert codes(await peer.answer(kind)) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        await until(lambda: second.groups.shard("g").ready)
        assert codes(await peer.ask(BEAT, 4, HeartbeatResponse)) == {ErrorCode.UNKNOWN_MEMBER_ID}


class SlowDisk(MemoryStore):
    """Its syncs wait for a permit."""

    def __init__(self) -> None:
        super().__init__()
        self.permit = threading.Event()
        self.permit.set()
        self.is_asked = threading.Event()

    def sync(self, pending: Pending) -> None:
        self.is_asked.set()
        assert self.permit.wait(20)
        super().sync(pending)


async def test_a_broker_that_stops_sends_its_groups_to_another_coordinator(start_broker: MakeBroker) -> None:
    disk = SlowDisk()
    broker = await start_broker(BrokerOptions(port=0, settings=QUICK), disk)
    broker.topics.create("orders", PARTITIONS)
    async with talking_to(broker) as committer, talking_to(broker) as peer:
        assert codes(await peer.ask(ListGroupsRequest(), 4, ListGroupsResponse)) == set()
        disk.permit.clear()
        disk.is_asked.clear()
        committer.send(commit(), 8)
        await until(disk.is_asked.is_set)
        # The broker waits for earlier writes; meanwhile the connections are open.
        stopping = asyncio.ensure_future(broker.stop())
        await until(lambda: not broker.groups.shard("g").ready)
        assert codes(await peer.ask(BEAT, 4, HeartbeatResponse)) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        for request, version, kind in ASKED:
            assert codes(await peer.ask(request, version, kind)) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        disk.permit.set()
        assert codes(await committer.answer(OffsetCommitResponse)) == set()
        await stopping
