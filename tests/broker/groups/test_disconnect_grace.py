"""A member whose connection closed is removed when it does not come back (group.disconnect.grace.ms)."""

import asyncio

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.broker.conftest import Connect, MakeBroker
from tests.broker.peer import Peer, until

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.heartbeat.hold.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture
async def broker(start_broker: MakeBroker) -> Broker:
    return await start_broker(BrokerOptions(port=0, settings={**SETTINGS, "group.disconnect.grace.ms": "150"}))


async def consumer_member(peer: Peer, group: str, member_id: str, instance_id: str | None = None) -> int:
    """Join a consumer group; returns the member's epoch."""
    joining = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        instance_id=instance_id,
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        subscribed_topic_names=["orders"],
    )
    answer = await peer.ask(joining, 1, ConsumerGroupHeartbeatResponse)
    assert answer.error_code == ErrorCode.NONE
    return answer.member_epoch


async def classic_member(peer: Peer, group: str) -> tuple[str, int]:
    """The first member of a classic group, which is then stable; returns its id and generation."""
    joining = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        protocol_type="any",
        protocols=[JoinGroupRequestProtocol(name="one", metadata=b"")],
    )
    joined = await peer.ask(joining, 3, JoinGroupResponse)
    syncing = SyncGroupRequest(group_id=group, member_id=joined.member_id, generation_id=joined.generation_id)
    assert (await peer.ask(syncing, 3, SyncGroupResponse)).error_code == ErrorCode.NONE
    return joined.member_id, joined.generation_id


def members(broker: Broker, group: str) -> set[str]:
    return set(broker.groups.shard(group).members(group))


async def test_a_member_that_does_not_come_back_is_removed(broker: Broker, connect: Connect) -> None:
    dying, watching = await connect(), await connect()
    await consumer_member(dying, "g", "dead")
    await consumer_member(watching, "g", "alive")
    dying.writer.close()
    await until(lambda: members(broker, "g") == {"alive"})


async def test_a_classic_member_is_removed_after_its_grace_period(broker: Broker, connect: Connect) -> None:
    peer = await connect()
    member_id, _ = await classic_member(peer, "g")
    assert members(broker, "g") == {member_id}
    peer.writer.close()
    await until(lambda: members(broker, "g") == set())


async def test_a_member_that_uses_another_connection_stays(broker: Broker, connect: Connect) -> None:
    first, second = await connect(), await connect()
    member_id, generation = await classic_member(first, "g")
    first.writer.close()
    beat = HeartbeatRequest(group_id="g", member_id=member_id, generation_id=generation)
    assert (await second.ask(beat, 3, HeartbeatResponse)).error_code == ErrorCode.NONE
    await asyncio.sleep(0.4)  # more than the grace; there is nothing to wait for
    assert members(broker, "g") == {member_id}
    second.writer.close()
    await until(lambda: members(broker, "g") == set())


async def test_a_connection_that_the_member_left_before_does_not_count(broker: Broker, connect: Connect) -> None:
    first, second = await connect(), await connect()
    member_id, generation = await classic_member(first, "g")
    beat = HeartbeatRequest(group_id="g", member_id=member_id, generation_id=generation)
    await second.ask(beat, 3, HeartbeatResponse)
    first.writer.close()
    await asyncio.sleep(0.4)  # more than the grace; there is nothing to wait for
    assert members(broker, "g") == {member_id}


async def test_a_static_member_keeps_its_session(broker: Broker, connect: Connect) -> None:
    one, other = await connect(), await connect()
    await consumer_member(one, "g", "static", "instance")
    await consumer_member(other, "g", "dynamic")
    one.writer.close()
    other.writer.close()
    await until(lambda: members(broker, "g") == {"static"})


async def test_members_keep_their_sessions_when_a_gateway_closes_all_connections(
    broker: Broker, connect: Connect
) -> None:
    peers = [await connect() for _ in range(12)]
    for number, peer in enumerate(peers):
        await consumer_member(peer, f"g{number % 4}", f"m{number}")
    for peer in peers:
        peer.writer.close()
    await until(lambda: broker.connections == 0)
    await asyncio.sleep(0.4)  # more than the grace; there is nothing to wait for
    assert sum(len(members(broker, f"g{group}")) for group in range(4)) == 12


async def test_with_a_grace_of_zero_only_the_session_timeout_applies(start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings={**SETTINGS, "group.disconnect.grace.ms": "0"}))
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    member_id, _ = await classic_member(Peer(reader, writer), "g")
    writer.close()
    await until(lambda: broker.connections == 0)
    await asyncio.sleep(0.4)  # there is nothing to wait for
    assert members(broker, "g") == {member_id}
