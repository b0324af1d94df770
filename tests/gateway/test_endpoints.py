"""Responses that pass in pieces, and the addresses at their end."""

from __future__ import annotations

from struct import pack

import pytest

from kohort.gateway.addresses import Address, Addresses
from kohort.gateway.endpoints import SHARE_ACKNOWLEDGE, SHARE_FETCH, Walk
from kohort.gateway.framing import BadStream, Fate, FrameStream
from kohort.gateway.traffic import Traffic
from kohort.wire.api import request_header, response_header
from kohort.wire.codec import decode, encode
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.current_leader import LeaderIdAndEpoch, NodeEndpoint
from kohort.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

RECORDS = bytes(range(256)) * 40


def endpoint(node_id: int, host: str, port: int, rack: str | None = None) -> NodeEndpoint:
    return NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)


def fetched(*endpoints: NodeEndpoint, partitions: int = 3) -> FetchResponse:
    data = [
        PartitionData(
            partition_index=number,
            error_code=6 if number % 2 else 0,
            current_leader=LeaderIdAndEpoch(leader_id=3, leader_epoch=7) if number % 2 else None,
            aborted_transactions=[AbortedTransaction(producer_id=1, first_offset=2)] * 2 if number == 2 else None,
            records=[RECORDS] if number == 0 else None,
        )
        for number in range(partitions)
    ]
    topics = [FetchableTopicResponse(partitions=data), FetchableTopicResponse(partitions=data[:1])]
    return FetchResponse(session_id=5, responses=topics, node_endpoints=list(endpoints))


def through(traffic: Traffic, frame: bytes, piece: int) -> bytes:
    """Return the frame as the client receives it, without its size, if it arrives in pieces of this size."""
    out = bytearray()
    stream = FrameStream(
        traffic.decide_response,
        out.extend,
        lambda _: pytest.fail("it is collected"),
        max_frame=1 << 20,
        begin_walk=traffic.begin_walk,
        end_walk=traffic.end_walk,
    )
    whole = pack(">i", len(frame)) + frame
    for begin in range(0, len(whole), piece):
        stream.feed(whole[begin : begin + piece])
    assert not stream.mid_frame
    assert out[:4] == whole[:4]
    return bytes(out[4:])


def asked(host: str, key: int, version: int) -> Traffic:
    traffic = Traffic(Addresses(lambda node_id: Address(host, 9000 + node_id)))
    frame = request_header(key, version, 7, "client") if key == ApiKey.FETCH else pack(">hhihB", key, version, 7, -1, 0)
    assert traffic.decide_request(memoryview(frame), len(frame)) is Fate.PASS
    return traffic


@pytest.mark.parametrize("version", [16, 17, 18])
@pytest.mark.parametrize("piece", [1, 3, 1000, 1 << 20])
@pytest.mark.parametrize("host", ["broker3.example.com", "gate.example.com", "g", "a-very-long-name.example.com"])
def test_new_leaders_after_the_records_are_at_the_gateway(version: int, piece: int, host: str) -> None:
    sent = fetched(endpoint(3, "broker3.example.com", 9092, "rack"), endpoint(5, "broker5.example.com", 9092))
    frame = response_header(ApiKey.FETCH, version, 7) + encode(sent, version)
    got = decode(FetchResponse, version, through(asked(host, 1, version), frame, piece)[5:])
    fits = len(host) <= len("broker3.example.com")
    expected = [endpoint(3, host, 9003, "rack"), endpoint(5, host, 9005)] if fits else []
    assert got.node_endpoints == expected
    got.node_endpoints = sent.node_endpoints
    assert encode(got, version) == encode(sent, version)


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
@pytest.mark.parametrize("sent", [fetched(), FetchResponse(), fetched(partitions=0)])
def test_a_response_without_addresses_passes_as_it_is(piece: int, sent: FetchResponse) -> None:
    frame = response_header(ApiKey.FETCH, 17, 7) + encode(sent, 17)
    assert through(asked("gateway", 1, 17), frame, piece) == frame


@pytest.mark.parametrize("leaders", [[2], [0, 2, 3]])
def test_a_new_leader_without_an_address_is_not_named(leaders: list[int]) -> None:
    def address_of(node_id: int) -> Address | None:
        return None if node_id == 2 else Address("gate.example.com", 9000 + node_id)

    traffic = Traffic(Addresses(address_of))
    frame = request_header(ApiKey.FETCH, 18, 7, "client")
    traffic.decide_request(memoryview(frame), len(frame))
    sent = fetched(*[endpoint(leader, "broker1.example.com", 9092) for leader in leaders])
    whole = response_header(ApiKey.FETCH, 18, 7) + encode(sent, 18)
    got = decode(FetchResponse, 18, through(traffic, whole, 1 << 20)[5:])
    # Node 0 is a broker as any other.
    named = [(leader, "gate.example.com", 9000 + leader) for leader in leaders if leader != 2]
    assert [(each.node_id, each.host, each.port) for each in got.node_endpoints] == named


def test_records_may_be_larger_than_what_four_bytes_of_a_length_can_tell() -> None:
    head = response_header(ApiKey.FETCH, 16, 7) + bytes(10)
    partition = bytes(30) + b"\0" + bytes(4)
    walk = Walk(ApiKey.FETCH, 16)
    begin = head + b"\2" + bytes(16) + b"\2" + partition + b"\x81\x80\x80\x80\x01"
    assert walk.feed(memoryview(begin)) == len(begin)
    assert walk._skip == 1 << 28
    with pytest.raises(BadStream, match="a number that is too long"):
        Walk(ApiKey.FETCH, 16).feed(memoryview(head + b"\2" + bytes(16) + b"\2" + partition + b"\x80" * 6))


def test_a_fetch_before_version_16_is_not_read() -> None:
    traffic = asked("gateway", 1, 15)
    assert traffic.decide_response(memoryview(pack(">i", 7)), 100) is Fate.PASS


@pytest.mark.parametrize(
    "frame",
    [
        encode(fetched(), 17)[:-400],
        encode(FetchResponse(), 17)[:-1] + b"\1\0\xff\xff\xff\xff\x0f",
        encode(FetchResponse(), 17)[:-1] + b"\1\0\5\2\0\0\0\3",
        encode(FetchResponse(), 17)[:-2] + b"\xff\xff\xff\xff\xff\xff",
    ],
)
def test_a_malformed_response_ends_its_connection(frame: bytes) -> None:
    with pytest.raises(BadStream):
        through(asked("gateway", 1, 17), response_header(ApiKey.FETCH, 17, 7) + frame, 1 << 20)


def share_response(key: int, version: int, host: bytes) -> bytes:
    """Return a response with one topic, one partition that has moved, and the address of its leader."""
    leader = pack(">iiB", 3, 7, 0)
    partition = pack(">ih", 0, 6) + b"\4mov"
    if key == SHARE_FETCH:
        partition += pack(">h", 0) + b"\0" + leader + b"\x05abcd" + b"\2" + bytes(19) + b"\0"
    else:
        partition += leader + b"\0"
    lock = pack(">i", 30_000) if key == SHARE_FETCH or version >= 2 else b""
    topics = b"\2" + bytes(16) + b"\2" + partition + b"\0"
    endpoints = b"\2" + pack(">iB", 3, len(host) + 1) + host + pack(">i", 9092) + b"\5rack\0"
    return pack(">iB", 7, 0) + pack(">ih", 0, 0) + b"\0" + lock + topics + endpoints + b"\0"


@pytest.mark.parametrize("piece", [1, 1 << 20])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("key", [SHARE_FETCH, SHARE_ACKNOWLEDGE])
def test_new_leaders_of_share_groups_are_at_the_gateway(key: int, version: int, piece: int) -> None:
    frame = share_response(key, version, b"broker3")
    got = through(asked("gateway", key, version), frame, piece)
    assert got == frame.replace(b"broker3", b"gateway").replace(pack(">i", 9092), pack(">i", 9003))
    short = through(asked("gw", key, version), frame, piece)
    assert len(short) == len(frame)
    assert b"\3gw" + pack(">i", 9003) + b"\5rack\0\1\x64\3\0\0\0" == short[-19:]
    none = through(asked("a-long-name", key, version), frame, piece)
    assert (len(none), b"broker3" in none, b"a-long-name" in none) == (len(frame), False, False)


def test_a_response_of_a_share_group_with_bytes_behind_its_fields_ends_its_connection() -> None:
    frame = pack(">iB", 7, 0) + pack(">ih", 0, 0) + b"\0" + pack(">i", 30_000) + b"\1" + b"\1\0" + b"\0"
    with pytest.raises(BadStream, match="more or fewer bytes than its fields"):
        through(asked("gateway", SHARE_FETCH, 2), frame, 1 << 20)


def test_a_version_that_was_not_announced_is_refused() -> None:
    with pytest.raises(BadStream, match="announces 1 to 2"):
        asked("gateway", SHARE_FETCH, 3)


def test_fetch_requests_are_not_collected() -> None:
    traffic = Traffic(Addresses(lambda node_id: Address("gateway", node_id)))
    frame = request_header(ApiKey.FETCH, 17, 7, "client") + encode(FetchRequest(), 17)
    assert traffic.decide_request(memoryview(frame), len(frame)) is Fate.PASS
