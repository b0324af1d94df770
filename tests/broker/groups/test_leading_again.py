"""A broker that stops coordinating a group and begins again: nothing of the time before is left."""

import asyncio
import errno
from collections.abc import Hashable
from dataclasses import dataclass

import pytest

from kohort.broker.groups.shard import Shard
from kohort.coordinator import RequestContext
from kohort.errors import ErrorCode
from kohort.log import MemoryStore
from kohort.log.api import Pending
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.broker.peer import Peer, connected
from tests.broker.virtual import PORT, VirtualBroker, eventually, in_virtual_time

HOLD_S = 9.0
"""group.heartbeat.hold.ms: the longest that any heartbeat is held."""


async def lead_again(world: VirtualBroker, group: str) -> None:
    """Move the group's partition to another broker and back."""
    broker = world.broker
    (shard,) = {broker.groups.shard(group)}
    log = broker.partition("__consumer_offsets", shard.partition)
    assert log is not None
    await broker.writer.drain()
    shard.resign()
    shard.lead(log)
    await eventually(lambda: shard.ready)


def test_a_heartbeat_that_is_held_ends_though_one_was_held_before_the_broker_led_again() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        fields = {"rebalance_timeout_ms": 5_000, "topic_partitions": [], "subscribed_topic_names": ["orders"]}
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=0, **fields)  # type: ignore[arg-type]
        epoch = (await peer.ask(request, 1, ConsumerGroupHeartbeatResponse)).member_epoch
        quiet = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch)
        peer.send(quiet, 1)
        shard = world.broker.groups.shard("g")
        await eventually(lambda: len(shard.waiting) == 1)
        await lead_again(world, "g")
        assert (await peer.answer(ConsumerGroupHeartbeatResponse)).error_code == ErrorCode.NOT_COORDINATOR
        for _ in range(3):
            began = world.loop.time()
            peer.send(quiet, 1)
            await eventually(lambda: len(shard.waiting) == 1)
            assert (await peer.answer(ConsumerGroupHeartbeatResponse)).error_code == ErrorCode.NONE
            assert world.loop.time() - began <= HOLD_S + 0.1

    in_virtual_time(steps)


@pytest.mark.parametrize("was_held", [True, False])
def test_a_classic_members_held_heartbeat_ends_after_the_broker_leads_again(was_held: bool) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        protocols = [JoinGroupRequestProtocol(name="p", metadata=b"")]
        join = JoinGroupRequest(
            group_id="g", session_timeout_ms=30_000, rebalance_timeout_ms=30_000, member_id="", protocol_type="x"
        )
        join.protocols = protocols
        joined = await peer.ask(join, 3, JoinGroupResponse)
        member, generation = joined.member_id, joined.generation_id
        assignments = [SyncGroupRequestAssignment(member_id=member, assignment=b"all")]
        sync = SyncGroupRequest(group_id="g", generation_id=generation, member_id=member, assignments=assignments)
        assert (await peer.ask(sync, 2, SyncGroupResponse)).assignment == b"all"
        beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member)
        shard = world.broker.groups.shard("g")
        # The first heartbeats tell the coordinator how often this member sends them.
        for _ in range(3):
            assert (await peer.ask(beat, 3, HeartbeatResponse)).error_code == ErrorCode.NONE
        if was_held:
            peer.send(beat, 3)
            await eventually(lambda: len(shard.waiting) == 1)
        await lead_again(world, "g")
        if was_held:
            assert (await peer.answer(HeartbeatResponse)).error_code == ErrorCode.NOT_COORDINATOR
        for _ in range(4):
            began = world.loop.time()
            assert (await peer.ask(beat, 3, HeartbeatResponse)).error_code == ErrorCode.NONE
            assert world.loop.time() - began <= HOLD_S + 0.1

    in_virtual_time(steps)


async def classic_member(peer: Peer, group: str, session_ms: int) -> HeartbeatRequest:
    """Be the only member of a classic group; return the heartbeat to send."""
    join = JoinGroupRequest(
        group_id=group, session_timeout_ms=session_ms, rebalance_timeout_ms=30_000, member_id="", protocol_type="x"
    )
    join.protocols = [JoinGroupRequestProtocol(name="p", metadata=b"")]
    joined = await peer.ask(join, 3, JoinGroupResponse)
    sync = SyncGroupRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id)
    assert (await peer.ask(sync, 2, SyncGroupResponse)).error_code == ErrorCode.NONE
    return HeartbeatRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id)


def test_a_heartbeat_that_is_to_end_before_one_that_is_held_already_ends_in_its_own_time() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        async with connected(f"127.0.0.1:{PORT}") as other:
            patient, hurried = await classic_member(peer, "a", 30_000), await classic_member(other, "b", 6_000)
            shard = world.broker.groups.shard("a")
            peer.send(patient, 3)
            await eventually(lambda: len(shard.waiting) == 1)
            began = world.loop.time()
            other.send(hurried, 3)
            assert (await other.answer(HeartbeatResponse)).error_code == ErrorCode.NONE
            assert 1.9 <= world.loop.time() - began <= 2.1, "a third of its session"
            assert (await peer.answer(HeartbeatResponse)).error_code == ErrorCode.NONE
            assert HOLD_S - 0.1 <= world.loop.time() - began <= HOLD_S + 0.1

    in_virtual_time(steps, {"offsets.topic.num.partitions": "1"})


def test_no_timer_is_left_of_what_a_broker_has_coordinated() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        beat = await classic_member(peer, "g", 30_000)
        shard = world.broker.groups.shard("g")
        peer.send(beat, 3)
        await eventually(lambda: len(shard.waiting) == 1)
        await world.broker.writer.drain()
        assert timers_of(world, shard.partition)
        shard.resign()
        assert timers_of(world, shard.partition) == []
        assert (await peer.answer(HeartbeatResponse)).error_code == ErrorCode.NOT_COORDINATOR

    in_virtual_time(steps)


def timers_of(world: VirtualBroker, partition: int) -> list[Hashable]:
    return [key for key in world.broker.timers._due if isinstance(key, tuple) and key[0] == partition]


class Full(MemoryStore):
    """A store whose disk has no room once the test says so."""

    is_full = False

    def sync(self, pending: Pending) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().sync(pending)


@dataclass(eq=False)
class Waiter:
    """Takes one answer."""

    request: Message
    version: int
    answer: Message | None = None

    def reply(self, response: Message, /) -> None:
        self.answer = response


def test_a_broker_that_stops_does_not_load_again_what_a_full_disk_did_not_take() -> None:
    store = Full()
    world = VirtualBroker(store=store)
    shard = world.broker.groups.shard("g")
    commit = committing(1)
    waiter = Waiter(commit, 5)

    async def commit_and_stop() -> None:
        store.is_full = True
        shard.handle(commit, waiter, RequestContext(waiter, 5, "client", "/host"))
        await world.broker.stop()

    world.play(commit_and_stop())
    assert isinstance(waiter.answer, OffsetCommitResponse)
    assert waiter.answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    world.let_pass(60)
    assert not shard.ready


async def consumer_member(peer: Peer) -> int:
    """Join the group g for the topic orders; return the epoch."""
    fields = {"rebalance_timeout_ms": 5_000, "topic_partitions": [], "subscribed_topic_names": ["orders"]}
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=0, **fields)  # type: ignore[arg-type]
    return (await peer.ask(request, 1, ConsumerGroupHeartbeatResponse)).member_epoch


def test_a_broker_that_resigns_while_it_loads_does_not_begin_to_lead() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        await consumer_member(peer)
        shard = world.broker.groups.shard("g")
        log = world.broker.partition("__consumer_offsets", shard.partition)
        assert log is not None
        await world.broker.writer.drain()
        shard.resign()
        shard.lead(log)
        assert not shard.ready, "it loads"
        shard.resign()
        await asyncio.sleep(60)
        assert not shard.ready

    in_virtual_time(steps)


def test_a_topic_that_is_made_while_the_coordinator_loads_is_assigned() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        epoch = await consumer_member(peer)
        shard = world.broker.groups.shard("g")
        log = world.broker.partition("__consumer_offsets", shard.partition)
        assert log is not None
        await world.broker.writer.drain()
        shard.resign()
        shard.lead(log)
        assert not shard.ready, "it loads"
        world.broker.topics.create("orders", 1)
        world.broker.topics_image.tell()
        assert not shard.ready, "it loads"
        await eventually(lambda: shard.ready)
        for _ in range(20):
            beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch)
            told = await peer.ask(beat, 1, ConsumerGroupHeartbeatResponse)
            epoch = told.member_epoch
            if told.assignment is not None and told.assignment.topic_partitions:
                return
        raise AssertionError("the member never got the partition")

    in_virtual_time(steps)


def committing(offset: int) -> OffsetCommitRequest:
    """A simple consumer's commit for partition 0 of the topic t."""
    at = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[at])])


def test_offsets_of_a_topic_that_is_deleted_while_the_coordinator_loads_are_deleted() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        topic = world.broker.topics.create("t", 1)
        answer = await peer.ask(committing(5), 5, OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        shard = world.broker.groups.shard("g")
        log = world.broker.partition("__consumer_offsets", shard.partition)
        assert log is not None
        await world.broker.writer.drain()
        shard.resign()
        shard.lead(log)
        assert not shard.ready, "it loads"
        world.broker.topics.delete(topic)
        world.broker.groups.topics_deleted(["t"])
        await eventually(lambda: shard.ready)
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        (group,) = (await peer.ask(fetch, 8, OffsetFetchResponse)).groups
        assert (group.error_code, group.topics) == (ErrorCode.NONE, [])

    in_virtual_time(steps)


def test_while_the_disk_is_full_a_coordinator_loads_five_times_a_second_at_most() -> None:
    store = Full()
    world = VirtualBroker(store=store)
    shard = world.broker.groups.shard("g")
    handled: list[float] = []

    async def commit_all_the_time() -> None:
        store.is_full = True
        until = world.loop.time() + 4
        while world.loop.time() < until:
            if shard.ready:
                waiter = Waiter(committing(len(handled)), 5)
                handled.append(world.loop.time())
                shard.handle(waiter.request, waiter, RequestContext(waiter, 5, "client", "/host"))
                await eventually(lambda: waiter.answer is not None)  # noqa: B023
            await asyncio.sleep(0.01)
        store.is_full = False

    world.play(commit_all_the_time())
    assert len(handled) >= 10
    # After the first it is loaded again at once.
    assert handled[-1] - handled[1] >= 0.19 * (len(handled) - 2)
    world.play(world.broker.stop())


def test_the_last_held_heartbeat_completes_the_joint_notification() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        async with connected(f"127.0.0.1:{PORT}") as second, connected(f"127.0.0.1:{PORT}") as third:
            join = JoinGroupRequest(
                group_id="g", session_timeout_ms=30_000, rebalance_timeout_ms=30_000, protocol_type="consumer"
            )
            said = encode_subscription(Subscription(topics=["t"]), 1)
            join.protocols = [JoinGroupRequestProtocol(name="range", metadata=said)]
            beats = []
            for each in (peer, second):
                each.send(join, 3)
            for each in (peer, second):
                joined = await each.answer(JoinGroupResponse)
                sync = SyncGroupRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
                each.send(sync, 2)
                beats.append(
                    HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
                )
            for each in (peer, second):
                assert (await each.answer(SyncGroupResponse)).error_code == ErrorCode.NONE
            shard = world.broker.groups.shard("g")
            peer.send(beats[0], 3)
            await eventually(lambda: len(shard.waiting) == 1)
            third.send(join, 3)
            await eventually(lambda: len(shard.waiting) == 2)
            await asyncio.sleep(1)
            assert len(shard.waiting) == 2, "the first is told with the second"
            began = world.loop.time()
            second.send(beats[1], 3)
            for each in (peer, second):
                assert (await each.answer(HeartbeatResponse)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
            assert world.loop.time() - began < 0.1

    in_virtual_time(steps)


def test_offsets_of_a_deleted_topic_are_deleted() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await peer.ask(committing(5), 5, OffsetCommitResponse)
        world.broker.groups.topics_deleted(["t"])
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        (group,) = (await peer.ask(fetch, 8, OffsetFetchResponse)).groups
        assert (group.error_code, group.topics) == (ErrorCode.NONE, [])

    in_virtual_time(steps)


def test_a_shard_that_never_led_has_no_members_and_no_waiting_requests() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        shard = Shard(world.broker, 0)
        assert not shard.waiting and not shard.members("g") and not shard.weighed_topics
        assert shard.grace_ms("g", "a") is None
        assert shard.short_grace_ms("g", "a", ("/", "")) is None
        shard.connection_lost("g", "a", 0)
        shard.settings_changed("g")

    in_virtual_time(steps)
