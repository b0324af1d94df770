"""A broker that stops coordinating a group and begins again: nothing of the time before is left."""

import asyncio

import pytest

from kohort.errors import ErrorCode
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.broker.peer import Peer
from tests.broker.virtual import VirtualBroker, eventually, in_virtual_time

HOLD_S = 9.0
"""group.heartbeat.hold.ms: the longest that any heartbeat is held."""


async def lead_again(world: VirtualBroker, group: str) -> None:
    """As when the group's partition goes to another broker and comes back."""
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
def test_so_does_a_classic_members(was_held: bool) -> None:
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
