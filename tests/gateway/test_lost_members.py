"""A member whose connection to the gateway closed leaves its group when it does not come back."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.gateway import Address, Gateway, GatewayOptions, lost_members
from kohort.gateway.side import SLOW
from kohort.recorder import RebalanceRecord
from kohort.wire.api import request_header
from kohort.wire.codec import encode
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.groups.test_disconnect_grace import classic_member, consumer_member, members
from tests.broker.peer import Peer, until

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.heartbeat.hold.ms": "0",
    "group.disconnect.grace.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
GRACE_MS = 150
LONGER_S = 0.4
"""More than the grace. Tests that nothing happens have nothing else to wait for."""

Connect = Callable[[], Awaitable[Peer]]


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(BrokerOptions(port=0, settings=SETTINGS))
    await broker.start()
    yield broker
    await broker.stop()


def options(broker: Broker, *, grace_ms: int = GRACE_MS, journal: Path | None = None) -> GatewayOptions:
    upstream = [Address("127.0.0.1", broker.port)]
    settings = {"group.disconnect.grace.ms": str(grace_ms)}
    return GatewayOptions(upstream, Address("127.0.0.1", 0), settings, journal=journal)


@pytest.fixture
async def gateway(broker: Broker, request: pytest.FixtureRequest) -> AsyncIterator[Gateway]:
    async with Gateway(options(broker, grace_ms=getattr(request, "param", GRACE_MS))) as gateway:
        yield gateway


patient = pytest.mark.parametrize("gateway", [1_000], indirect=True)
"""Gives the gateway a grace that ends after it has read an answer, also on a machine that is busy."""


@pytest.fixture
async def connect(gateway: Gateway) -> AsyncIterator[Connect]:
    peers: list[Peer] = []

    async def open_one() -> Peer:
        peers.append(await connected(gateway))
        return peers[-1]

    yield open_one
    for peer in peers:
        peer.writer.close()


async def connected(gateway: Gateway) -> Peer:
    return Peer(*await asyncio.open_connection("127.0.0.1", gateway.address.port))


async def test_a_member_of_a_consumer_group_that_does_not_come_back_leaves(
    broker: Broker, gateway: Gateway, connect: Connect
) -> None:
    dying, watching = await connect(), await connect()
    await consumer_member(dying, "g", "dead")
    await consumer_member(watching, "g", "alive")
    dying.writer.close()
    await until(lambda: members(broker, "g") == {"alive"})
    await until(lambda: not gateway.groups.lost_members)


async def test_a_classic_member_that_does_not_come_back_leaves(broker: Broker, connect: Connect) -> None:
    peer = await connect()
    member_id, _ = await classic_member(peer, "g")
    assert members(broker, "g") == {member_id}
    peer.writer.close()
    await until(lambda: members(broker, "g") == set())


async def test_a_member_that_dies_while_its_heartbeat_is_held_leaves(
    broker: Broker, gateway: Gateway, connect: Connect
) -> None:
    peer = await connect()
    member_id, generation = await classic_member(peer, "g")
    peer.send(HeartbeatRequest(group_id="g", member_id=member_id, generation_id=generation), 3)
    await until(lambda: gateway.groups.held == 1)
    peer.writer.close()
    await until(lambda: members(broker, "g") == set())


async def test_the_answer_is_read_in_place_of_a_member_that_read_nothing(
    broker: Broker, gateway: Gateway, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_members, "_ANSWER_S", 3_600)
    peer = await connect()
    await classic_member(peer, "g")
    (link,) = gateway.links
    link.upstream.pause(SLOW)
    peer.writer.close()
    await until(lambda: members(broker, "g") == set())
    await until(lambda: not gateway.groups.lost_members)


async def test_a_member_that_uses_another_connection_stays(broker: Broker, connect: Connect) -> None:
    first, second = await connect(), await connect()
    member_id, generation = await classic_member(first, "g")
    first.writer.close()
    beat = HeartbeatRequest(group_id="g", member_id=member_id, generation_id=generation)
    second.send(beat, 3)
    await asyncio.sleep(LONGER_S)
    assert members(broker, "g") == {member_id}
    second.writer.close()
    await until(lambda: members(broker, "g") == set())


async def test_a_member_that_came_back_while_the_gateway_stood_still_stays(
    broker: Broker, gateway: Gateway, connect: Connect
) -> None:
    first = await connect()
    member_id, generation = await classic_member(first, "g")
    first.writer.close()
    await until(lambda: gateway.groups.lost_members == 1)
    with socket.create_connection(("127.0.0.1", gateway.address.port)) as second:
        beat = HeartbeatRequest(group_id="g", member_id=member_id, generation_id=generation)
        frame = request_header(beat.KEY, 3, 1, "peer") + encode(beat, 3)
        second.sendall(len(frame).to_bytes(4, "big") + frame)
        time.sleep(GRACE_MS / 1000 + 0.6)  # noqa: ASYNC251  # nothing else runs
        await asyncio.sleep(1.0)
        assert members(broker, "g") == {member_id}


async def test_a_member_whose_heartbeat_is_not_answered_yet_stays(
    broker: Broker, gateway: Gateway, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    epoch = await consumer_member(first, "g", "m")
    await second.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    (_, link) = gateway.links
    link.upstream.pause("the coordinator does not answer")
    first.writer.close()
    await until(lambda: gateway.groups.lost_members == 1)
    second.send(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch), 1)
    await until(lambda: not gateway.groups.lost_members)
    await asyncio.sleep(LONGER_S)
    assert members(broker, "g") == {"m"}


async def test_a_member_leaves_although_another_one_of_its_connection_comes_back(
    broker: Broker, gateway: Gateway, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    epoch = await consumer_member(first, "g", "back")
    await consumer_member(first, "h", "gone")
    first.writer.close()
    await until(lambda: gateway.groups.lost_members == 2)
    second.send(ConsumerGroupHeartbeatRequest(group_id="g", member_id="back", member_epoch=epoch), 1)
    await until(lambda: members(broker, "h") == set())
    assert members(broker, "g") == {"back"}


async def test_a_coordinator_that_does_not_answer_is_not_awaited(
    broker: Broker, gateway: Gateway, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_members, "_ANSWER_S", 0.2)
    peer = await connect()
    await classic_member(peer, "g")
    (link,) = gateway.links
    monkeypatch.setattr(link.upstream, "resume", lambda reason: None)
    link.upstream.pause("the coordinator does not answer")
    peer.writer.close()
    await until(lambda: gateway.groups.lost_members == 1)
    await until(lambda: not gateway.groups.lost_members)
    assert not link.upstream.is_open


async def test_a_heartbeat_with_a_request_behind_it_is_not_held(gateway: Gateway, connect: Connect) -> None:
    peer = await connect()
    member_id, generation = await classic_member(peer, "g")
    (link,) = gateway.links
    link.upstream.pause("the answer is on its way")
    before = link._members.count
    peer.send(HeartbeatRequest(group_id="g", member_id=member_id, generation_id=generation), 3)
    peer.send(MetadataRequest(topics=[]), 12)  # it arrives before the answer to the heartbeat
    await until(lambda: link._members.count == before + 2)
    link.upstream.resume("the answer is on its way")
    async with asyncio.timeout(10):  # a hold takes 15 s
        assert not (await peer.answer(HeartbeatResponse)).error_code
        await peer.answer(MetadataResponse)


async def test_a_static_member_keeps_its_session(broker: Broker, connect: Connect) -> None:
    one, other = await connect(), await connect()
    await consumer_member(one, "g", "static", "instance")
    await consumer_member(other, "g", "dynamic")
    one.writer.close()
    other.writer.close()
    await until(lambda: members(broker, "g") == {"static"})


async def test_members_of_many_groups_whose_connections_close_together_keep_their_sessions(
    broker: Broker, gateway: Gateway, connect: Connect
) -> None:
    peers = [await connect() for _ in range(12)]
    for number, peer in enumerate(peers):
        await consumer_member(peer, f"g{number % 4}", f"m{number}")
    for peer in peers:
        peer.writer.close()
    await until(lambda: len(gateway.links) == 0)
    await asyncio.sleep(LONGER_S)
    assert sum(len(members(broker, f"g{group}")) for group in range(4)) == 12
    assert not gateway.groups.lost_members


async def test_members_keep_their_sessions_when_the_gateway_stops(broker: Broker) -> None:
    async with Gateway(options(broker)) as gateway:
        before, at = await connected(gateway), await connected(gateway)
        await consumer_member(before, "g", "before")
        await consumer_member(at, "g", "at")
        before.writer.close()
        await until(lambda: len(gateway.links) == 1)
    at.writer.close()
    await until(lambda: broker.connections == 0)
    await asyncio.sleep(LONGER_S)
    assert members(broker, "g") == {"before", "at"}


async def test_members_keep_their_sessions_when_the_cluster_closes_the_connection(
    broker: Broker, gateway: Gateway, connect: Connect
) -> None:
    peer = await connect()
    await consumer_member(peer, "g", "m")
    for link in list(gateway.links):
        link.upstream.transport.abort()
    assert await peer.closed()
    await asyncio.sleep(LONGER_S)
    assert members(broker, "g") == {"m"}


@patient
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_a_member_that_leaves_and_closes_its_connection_at_once_leaves_once(
    broker: Broker, gateway: Gateway, connect: Connect, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="kohort.gateway")
    peer = await connect()
    if protocol == "consumer":
        await consumer_member(peer, "g", "m")
        peer.send(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1), 1)
    else:
        member_id, _ = await classic_member(peer, "g")
        peer.send(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)]), 3)
    peer.writer.close()
    await until(lambda: members(broker, "g") == set())
    await until(lambda: len(gateway.links) == 0 and not gateway.groups.lost_members)
    assert "its connection closed" not in caplog.text


@patient
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_a_member_whose_leave_is_answered_when_its_connection_is_closed_leaves_once(
    gateway: Gateway, connect: Connect, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="kohort.gateway")
    peer = await connect()
    (link,) = gateway.links
    if protocol == "consumer":
        await consumer_member(peer, "g", "m")
        link.upstream.pause("the answer is on its way")
        peer.send(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1), 1)
    else:
        member_id, _ = await classic_member(peer, "g")
        link.upstream.pause("the answer is on its way")
        peer.send(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)]), 3)
    peer.writer.close()
    await until(lambda: gateway.groups.lost_members == 1)
    link.upstream.resume("the answer is on its way")
    await until(lambda: not gateway.groups.lost_members)
    assert "its connection closed" not in caplog.text


async def test_with_a_grace_of_zero_only_the_session_timeout_applies(broker: Broker) -> None:
    async with Gateway(options(broker, grace_ms=0)) as gateway:
        peer = await connected(gateway)
        await consumer_member(peer, "g", "m")
        peer.writer.close()
        await until(lambda: len(gateway.links) == 0)
        await asyncio.sleep(LONGER_S)
        assert members(broker, "g") == {"m"}


@pytest.mark.parametrize("advertised", [None, "kafka.example.com"])
async def test_behind_an_address_that_another_gateway_may_have_members_are_kept(
    broker: Broker, advertised: str | None
) -> None:
    # A member that comes back there is not seen here, so it must not be removed.
    upstream = [Address("127.0.0.1", broker.port)]
    async with Gateway(GatewayOptions(upstream, Address("127.0.0.1", 0), advertised_host=advertised)) as gateway:
        assert gateway.groups.removes_lost_members is (advertised is None)


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_the_journal_tells_a_lost_connection(
    broker: Broker, tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    silent: list[float] = []
    async with Gateway(options(broker, journal=path)) as gateway:
        assert gateway.journal is not None
        taken = gateway.journal._observer.connection_lost

        def noted(group_id: str, member_id: str, closed_at: int) -> None:
            silent.append(time.time() * 1000 - closed_at)
            taken(group_id, member_id, closed_at)

        monkeypatch.setattr(gateway.journal._observer, "connection_lost", noted)
        peer = await connected(gateway)
        if protocol == "consumer":
            await consumer_member(peer, "g", "m")
        else:
            await classic_member(peer, "g")
        peer.writer.close()
        await until(lambda: members(broker, "g") == set())
        await until(lambda: not gateway.groups.lost_members)  # it has the answer
    causes = [RebalanceRecord.from_json(line).cause for line in path.read_bytes().splitlines()]
    assert causes[-1] == "connection lost"
    assert len(silent) == 1
    assert silent[0] >= GRACE_MS


async def test_a_member_that_was_removed_in_error_is_told_so(broker: Broker, connect: Connect) -> None:
    first, second = await connect(), await connect()
    member_id, generation = await classic_member(first, "g")
    first.writer.close()
    await until(lambda: members(broker, "g") == set())
    beat = HeartbeatRequest(group_id="g", member_id=member_id, generation_id=generation)
    assert (await second.ask(beat, 3, HeartbeatResponse)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_member_leaves_although_a_request_has_the_gateways_correlation_id(
    broker: Broker, gateway: Gateway, connect: Connect
) -> None:
    # A client counts its IDs as it likes. This JoinGroup waits for the other member of its group.
    peer, other = await connect(), await connect()
    await classic_member(other, "waiting")
    await classic_member(peer, "g")
    join = JoinGroupRequest(
        group_id="waiting",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=45_000,
        protocol_type="any",
        protocols=[JoinGroupRequestProtocol(name="one", metadata=b"")],
    )
    (link,) = (link for link in gateway.links if "g" in link.members.values())
    first_of_gateway = link._own.next_correlation() + 1
    peer.send_frame(request_header(JoinGroupRequest.KEY, 3, first_of_gateway, "peer") + encode(join, 3))
    await until(lambda: len(members(broker, "waiting")) == 2)
    link._own._last_correlation = first_of_gateway - 1
    peer.writer.close()
    await until(lambda: members(broker, "g") == set())
    await until(lambda: not gateway.groups.lost_members)
