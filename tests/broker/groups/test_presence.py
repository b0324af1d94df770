"""Members that count as lost when connections close, in virtual time."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from kohort.broker.groups import Shard
from kohort.errors import ErrorCode
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.broker.groups.test_consumer_groups import beat
from tests.broker.groups.test_disconnect_grace import classic_member, consumer_member, members
from tests.broker.peer import Peer, connected
from tests.broker.virtual import PORT, VirtualBroker, eventually, in_virtual_time

AT = f"127.0.0.1:{PORT}"
SETTINGS = {
    "group.disconnect.grace.ms": "2000",
    "group.heartbeat.hold.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
}


def test_a_member_that_comes_back_within_its_grace_stays() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        async with connected(AT) as first:
            member_id, generation = await classic_member(first, "g")
        await eventually(lambda: world.broker.connections == 1)
        assert world.broker.member_connections._connections == {}, "a closed connection is not kept"
        await asyncio.sleep(1)
        request = HeartbeatRequest(group_id="g", member_id=member_id, generation_id=generation)
        assert (await peer.ask(request, 3, HeartbeatResponse)).error_code == ErrorCode.NONE
        await asyncio.sleep(10)
        assert members(world.broker, "g") == {member_id}

    in_virtual_time(steps, SETTINGS)


def test_a_broker_that_takes_long_to_stop_removes_nobody_who_cannot_connect_to_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        async with connected(AT) as first:
            member_id, _ = await classic_member(first, "g")
        await eventually(lambda: world.broker.connections == 1)
        close = world.broker.loads.close

        async def slowly() -> None:
            await asyncio.sleep(10)
            assert members(world.broker, "g") == {member_id}
            await close()

        monkeypatch.setattr(world.broker.loads, "close", slowly)
        await world.broker.stop()

    in_virtual_time(steps, SETTINGS)


def test_a_member_that_the_broker_refused_has_a_whole_grace_from_when_it_can_connect() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        async with connected(AT) as first:
            member_id, generation = await classic_member(first, "g")
        world.broker.fenced = lambda: True  # its lease has expired, and is renewed after five seconds
        await asyncio.sleep(5)
        assert members(world.broker, "g") == {member_id}
        world.broker.fenced = None
        await asyncio.sleep(1.9)
        async with connected(AT) as again:
            request = HeartbeatRequest(group_id="g", member_id=member_id, generation_id=generation)
            assert (await again.ask(request, 3, HeartbeatResponse)).error_code == ErrorCode.NONE
        await asyncio.sleep(1.9)
        assert members(world.broker, "g") == {member_id}
        await asyncio.sleep(0.2)
        assert members(world.broker, "g") == set()

    in_virtual_time(steps, SETTINGS)


def test_members_that_are_lost_one_after_the_other_are_not_taken_for_a_gateways() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        async with AsyncExitStack() as open_ones:
            peers = [await open_ones.enter_async_context(connected(AT)) for _ in range(12)]
            for number, each in enumerate(peers):
                await consumer_member(each, f"g{number % 4}", f"m{number}")
            for each in peers:
                each.writer.close()
                await asyncio.sleep(1.5)
            await asyncio.sleep(3)
        assert {group: members(world.broker, f"g{group}") for group in range(4)} == {key: set() for key in range(4)}

    in_virtual_time(steps, SETTINGS)


def test_members_of_few_groups_that_are_lost_at_once_are_not_taken_for_a_gateways() -> None:
    # A machine that runs all instances of an application fails: other members must get its partitions soon.
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        async with AsyncExitStack() as open_ones:
            peers = [await open_ones.enter_async_context(connected(AT)) for _ in range(12)]
            for number, each in enumerate(peers):
                await consumer_member(each, f"g{number % 2}", f"m{number}")
        await asyncio.sleep(5)
        assert {group: members(world.broker, f"g{group}") for group in range(2)} == {key: set() for key in range(2)}

    in_virtual_time(steps, SETTINGS)


def test_a_connection_does_not_remember_members_that_left() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        for number in range(60):
            await consumer_member(peer, "g", f"m{number}")
            assert (await beat(peer, "g", f"m{number}", -1)).error_code == ErrorCode.NONE
        (connection,) = world.broker.sockets
        assert len(connection.members) < 20
        assert len(world.broker.member_connections._connections) < 20

    in_virtual_time(steps, SETTINGS)


def test_members_that_share_a_connection_are_looked_at_a_few_times_each(monkeypatch: pytest.MonkeyPatch) -> None:
    # A look at all of them for each new one took most of the CPU time while ten thousand members joined.
    looks = Counter[str]()
    has_member = Shard.has_member

    def counted(shard: Shard, group_id: str, member_id: str) -> bool:
        looks[member_id] += 1
        return has_member(shard, group_id, member_id)

    monkeypatch.setattr(Shard, "has_member", counted)

    async def steps(world: VirtualBroker, peer: Peer) -> None:
        for number in range(200):
            await consumer_member(peer, "g", f"m{number}")
        assert len(looks) == 200
        assert looks.total() < 4 * 200

    in_virtual_time(steps, SETTINGS)


@pytest.mark.parametrize(("lost", "groups", "stay"), [(10, 3, True), (9, 3, False), (10, 2, False)])
def test_ten_members_of_three_groups_that_are_lost_at_once_are_taken_for_a_gateways(
    lost: int, groups: int, stay: bool
) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        async with AsyncExitStack() as open_ones:
            for number in range(lost):
                one = await open_ones.enter_async_context(connected(AT))
                await consumer_member(one, f"g{number % groups}", f"m{number}")
        await asyncio.sleep(5)
        left = sum(len(members(world.broker, f"g{group}")) for group in range(groups))
        assert left == (lost if stay else 0)

    in_virtual_time(steps, SETTINGS)


def test_a_member_of_two_groups_on_one_connection_is_lost_to_the_group_of_its_last_request() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        async with connected(AT) as first:
            await consumer_member(first, "before", "m")
            epoch = await consumer_member(first, "after", "m")
            assert (await beat(peer, "before", "m", epoch)).error_code == ErrorCode.NONE
        await asyncio.sleep(10)
        assert members(world.broker, "before") == {"m"}
        assert members(world.broker, "after") == set()

    in_virtual_time(steps, SETTINGS)


def test_a_connection_without_members_closes_like_any_other() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        await consumer_member(peer, "g", "m")
        assert (await beat(peer, "g", "m", -1)).error_code == ErrorCode.NONE
        (connection,) = world.broker.sockets
        world.broker.member_connections.lost(connection)
        assert world.broker.member_connections._connections == {}
        world.broker.member_connections.lost(connection)

    in_virtual_time(steps, SETTINGS)
