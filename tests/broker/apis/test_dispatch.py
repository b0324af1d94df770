"""From a frame to its handler: what is not served, what a connection remembers, and what releases a held heartbeat."""

from __future__ import annotations

import struct

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.net.repeated_heartbeats import LARGEST
from kohort.errors import ErrorCode
from kohort.wire.api import API_VERSIONS, read_response_header, request_header
from kohort.wire.codec import encode
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.metadata import MetadataRequest
from tests.broker.peer import Peer, connected, talking_to
from tests.broker.virtual import PORT, VirtualBroker, eventually, in_virtual_time


def test_a_request_without_a_header_is_not_served(caplog: pytest.LogCaptureFixture) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        peer.send_frame(b"short")
        assert await peer.closed()

    in_virtual_time(steps)
    assert "a request is too short for its header" in caplog.text


def test_a_request_that_does_not_exist_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        peer.send_frame(struct.pack(">hhih", 999, 1, 7, -1))
        assert await peer.closed()

    in_virtual_time(steps)
    assert "request 999 version 1 is not supported" in caplog.text


def test_a_version_of_api_versions_that_does_not_exist_is_answered_in_version_0() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        peer.send_frame(struct.pack(">hhih", API_VERSIONS, 99, 7, -1))
        frame = await peer.receive_frame()
        correlation_id, code, count = struct.unpack_from(">ihi", frame)
        assert (correlation_id, code) == (7, ErrorCode.UNSUPPORTED_VERSION)
        assert len(frame) == 10 + 6 * count, "a later version has more fields"

    in_virtual_time(steps)


async def test_a_broker_serves_only_what_it_announces(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(BrokerOptions(port=0))
    broker.served = [(API_VERSIONS, 0, 2), (int(ApiKey.LIST_GROUPS), 0, 2)]
    async with broker, Broker(BrokerOptions(port=0)) as other:
        async with talking_to(broker) as peer, talking_to(other) as peer_of_other:
            told = await peer.ask(ApiVersionsRequest(), 2, ApiVersionsResponse)
            assert [(each.api_key, each.min_version, each.max_version) for each in told.api_keys] == broker.served
            assert (await peer.ask(ListGroupsRequest(), 2, ListGroupsResponse)).error_code == ErrorCode.NONE
            assert (await peer_of_other.ask(ListGroupsRequest(), 4, ListGroupsResponse)).error_code == ErrorCode.NONE
            peer.send_frame(struct.pack(">hhih", API_VERSIONS, 3, 7, -1))
            assert struct.unpack_from(">ih", await peer.receive_frame()) == (7, ErrorCode.UNSUPPORTED_VERSION)
            peer.send(ListGroupsRequest(), 4)
            assert await peer.closed()
    assert f"request {ApiKey.LIST_GROUPS:d} version 4 is not supported" in caplog.text


def test_a_broker_without_a_lease_serves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        lost = False
        world.broker.fenced = lambda: lost
        assert (await peer.ask(ListGroupsRequest(), 4, ListGroupsResponse)).error_code == ErrorCode.NONE
        lost = True
        peer.send(ListGroupsRequest(), 4)
        assert await peer.closed()

    in_virtual_time(steps)
    assert "this broker's lease has expired" in caplog.text


def test_a_mistake_of_ours_closes_one_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        async with connected(f"127.0.0.1:{PORT}") as other:
            with monkeypatch.context() as patch:
                patch.setattr(world.broker.topics, "all", lambda: 1 / 0)
                peer.send(MetadataRequest(topics=None), 4)
                assert await peer.closed()
            assert (await other.ask(ListGroupsRequest(), 4, ListGroupsResponse)).error_code == ErrorCode.NONE

    in_virtual_time(steps)
    assert "the request failed with an internal error of the broker" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_tagged_fields_of_a_request_header_are_skipped() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        request = ApiVersionsRequest(client_software_name="app", client_software_version="1")
        head = request_header(request.KEY, 3, 7, "peer")
        assert head.endswith(b"\0"), "no tagged fields"
        tags = b"\2" + b"\5\3abc" + b"\6\1x"
        peer.send_frame(head[:-1] + tags + encode(request, 3))
        frame = await peer.receive_frame()
        correlation_id, position = read_response_header(frame, request.KEY, 3)
        assert (correlation_id, struct.unpack_from(">h", frame, position)) == (7, (ErrorCode.NONE,))

    in_virtual_time(steps)


@pytest.mark.parametrize("tags", [b"", b"\2", b"\2\5", b"\2\5\x80", b"\x80", b"\xff\xff\xff\xff\xff\x01"])
def test_tagged_fields_that_are_cut_short_close_the_connection(tags: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        head = request_header(ApiVersionsRequest.KEY, 3, 7, "peer")
        peer.send_frame(head[:-1] + tags)
        assert await peer.closed()

    in_virtual_time(steps)
    assert "closing connection peer=" in caplog.text
    assert "the tagged fields of a request header are cut short" in caplog.text or "longer than five" in caplog.text


@pytest.mark.parametrize(("size", "is_remembered"), [(100, True), (LARGEST, True), (LARGEST + 1, False)])
def test_a_connection_remembers_a_heartbeat_that_is_small(size: int, is_remembered: bool) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        empty = len(request_header(HeartbeatRequest.KEY, 3, 1, "peer")) + len(encode(HeartbeatRequest(group_id=""), 3))
        beat = HeartbeatRequest(group_id="g" * (size - empty))
        for _ in range(2):
            assert (await peer.ask(beat, 3, HeartbeatResponse)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        (connection,) = world.broker.sockets
        assert (connection.last_heartbeat is not None) == is_remembered

    in_virtual_time(steps)


def test_a_connection_remembers_no_other_request() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        await peer.ask(ListGroupsRequest(), 4, ListGroupsResponse)
        (connection,) = world.broker.sockets
        assert connection.last_heartbeat is None

    in_virtual_time(steps)


def test_a_client_id_of_null_is_empty_and_another_one_is_noted() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        for client_id in ("one", "two", ""):
            peer.send(ListGroupsRequest(), 4, client_id)
            await peer.answer(ListGroupsResponse)
            (connection,) = world.broker.sockets
            assert connection.client_id == client_id
        peer.send(ListGroupsRequest(), 4, "one")
        await peer.answer(ListGroupsResponse)
        peer.send_frame(request_header(ListGroupsRequest.KEY, 2, 7, None) + encode(ListGroupsRequest(), 2))
        await peer.receive_frame()
        assert connection.client_id == ""

    in_virtual_time(steps)


# Held heartbeats


async def member(peer: Peer, member_id: str) -> ConsumerGroupHeartbeatRequest:
    """Be a member of the group `member_id`; return its heartbeat without news."""
    fields = {"rebalance_timeout_ms": 5_000, "topic_partitions": [], "subscribed_topic_names": ["t"]}
    joining = ConsumerGroupHeartbeatRequest(group_id=member_id, member_id=member_id, member_epoch=0, **fields)  # type: ignore[arg-type]
    told = await peer.ask(joining, 1, ConsumerGroupHeartbeatResponse)
    return ConsumerGroupHeartbeatRequest(group_id=member_id, member_id=member_id, member_epoch=told.member_epoch)


def test_a_heartbeat_that_was_answered_says_nothing_of_the_members_of_its_connection() -> None:
    # Members that share a connection are not held any more, and get the usual interval.
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        await peer.ask(ApiVersionsRequest(client_software_name="kohort"), 3, ApiVersionsResponse)
        (connection,) = world.broker.sockets
        first = await member(peer, "a")
        second = await member(peer, "b")
        for beat in (first, second):
            peer.send(beat, 1)
            await eventually(lambda: len(world.broker.groups.shard(beat.group_id).waiting) == 1)  # noqa: B023
            assert (await peer.answer(ConsumerGroupHeartbeatResponse)).error_code == ErrorCode.NONE
        assert not connection.has_many_members, "each waited for its end"
        peer.send(second, 1)
        await eventually(lambda: len(world.broker.groups.shard("b").waiting) == 1)
        peer.send(second, 1)
        assert (await peer.answer(ConsumerGroupHeartbeatResponse)).heartbeat_interval_ms == 100
        await eventually(lambda: len(world.broker.groups.shard("b").waiting) == 1)
        assert not connection.has_many_members, "it was the member's own heartbeat"
        peer.send(first, 1)
        assert (await peer.answer(ConsumerGroupHeartbeatResponse)).heartbeat_interval_ms == 5_000
        assert (await peer.answer(ConsumerGroupHeartbeatResponse)).error_code == ErrorCode.NONE
        assert connection.has_many_members

    in_virtual_time(steps)
