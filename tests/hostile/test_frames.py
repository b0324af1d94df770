"""Bytes that are no request: the connection is closed with one line in the log, and other clients notice nothing."""

from __future__ import annotations

import os
import struct

import pytest

from tests.hostile.peer import API_VERSIONS, HEARTBEAT, JOIN_GROUP, METADATA, Peer, compact, frame, request, string
from tests.interop.broker import Broker
from tests.interop.kohort import KohortBroker
from tests.interop.process import until

CLOSES = {
    "a frame over socket.request.max.bytes": struct.pack(">i", 104_857_601),
    "the largest frame size": struct.pack(">i", 2**31 - 1),
    "a negative frame size": struct.pack(">i", -1),
    "the smallest frame size": struct.pack(">i", -(2**31)),
    "an empty frame": frame(b""),
    "a frame shorter than a header": frame(struct.pack(">hh", 18, 0)),
    "an unknown API": request(9_999, 0),
    "a negative API": request(-1, 0),
    "a version that no broker serves": request(METADATA, 99, b"\0\0"),
    "a negative version": request(METADATA, -1, b"\0\0"),
    "a client id longer than the frame": frame(struct.pack(">hhih", METADATA, 1, 1, 500) + b"short"),
    "a body cut short": request(HEARTBEAT, 0, string("group")),
    "a compact string longer than the body": request(HEARTBEAT, 4, b"\x7fgroup", flexible=True),
    "an array longer than the body": request(METADATA, 1, struct.pack(">i", 2**31 - 1)),
    "a string longer than the body": request(METADATA, 1, struct.pack(">ih", 1, 32_000) + b"x"),
    "a varint without an end": request(METADATA, 9, b"\xff" * 11, flexible=True),
    "null where a group id must be": request(JOIN_GROUP, 0, struct.pack(">hi", -1, 10_000) + b"\0" * 20),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n\r\n",
    "a TLS client hello": bytes.fromhex("16030100c8010000c40303") + bytes(190),
    "an SSH banner": b"SSH-2.0-OpenSSH_9.6\r\n",
    "line ends": b"\r\n\r\n\r\n\r\n",
}


@pytest.mark.parametrize("data", CLOSES.values(), ids=CLOSES)
def test_bytes_that_are_not_a_request_close_only_their_connection(data: bytes, any_broker: Broker) -> None:
    with Peer(any_broker.bootstrap) as neighbour, Peer(any_broker.bootstrap) as hostile:
        neighbour.ping()
        hostile.send(data)
        neighbour.ping()
        assert hostile.is_closed()
        neighbour.ping()


@pytest.mark.parametrize("data", CLOSES.values(), ids=CLOSES)
def test_a_closed_connection_is_one_line_in_the_log(data: bytes, kohort_broker: KohortBroker) -> None:
    process = kohort_broker.process
    with Peer(kohort_broker.bootstrap) as hostile, Peer(kohort_broker.bootstrap) as neighbour:
        me = f"127.0.0.1:{hostile.port}"
        # The port was perhaps that of an earlier connection to this broker.
        before = sum(me in line for line in process.stderr)
        hostile.send(data)
        assert hostile.is_closed()
        neighbour.ping()
        until(30.0, "a line that names the peer", lambda: sum(me in line for line in process.stderr) > before)
        assert sum(me in line for line in process.stderr) == before + 1
        assert not any("Traceback" in line for line in process.stderr)


def test_random_bytes_after_a_valid_size_never_end_the_broker(any_broker: Broker) -> None:
    with Peer(any_broker.bootstrap) as neighbour:
        for size in (1, 8, 9, 64, 1_000, 100_000):
            with Peer(any_broker.bootstrap) as hostile:
                # No API has a key of 30,000 or more.
                hostile.send(frame(b"\x7f" + os.urandom(size)))
                assert hostile.is_closed()
        neighbour.ping()


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(any_broker: Broker) -> None:
    # The first request of a newer client: it learns from the v0 answer what this broker speaks (KIP-511).
    body = compact("future") + compact("1.0") + b"\0"
    with Peer(any_broker.bootstrap) as peer:
        rest = peer.ask(API_VERSIONS, 99, body, flexible=True)
        error, count = struct.unpack_from(">hi", rest)
        apis = [struct.unpack_from(">hhh", rest, 6 + 6 * n) for n in range(count)]
        assert error == 35
        assert API_VERSIONS in {key for key, _, _ in apis}
        assert len(rest) == 6 + 6 * count
        peer.ping()


def test_bytes_after_the_body_are_ignored(any_broker: Broker) -> None:
    with Peer(any_broker.bootstrap) as peer:
        body = struct.pack(">i", 0) + b"more than the schema knows"
        assert peer.ask(METADATA, 1, body)
        peer.ping()


def test_a_null_client_id_is_fine(any_broker: Broker) -> None:
    with Peer(any_broker.bootstrap) as peer:
        peer.send(frame(struct.pack(">hhih", API_VERSIONS, 0, 5, -1)))
        correlation_id, rest = peer.answer()
        assert (correlation_id, rest[:2]) == (5, b"\0\0")


def test_a_request_that_arrives_byte_by_byte_is_answered(any_broker: Broker) -> None:
    with Peer(any_broker.bootstrap) as peer:
        for byte in request(API_VERSIONS, 0, correlation_id=9):
            peer.send(bytes([byte]))
        assert peer.answer()[0] == 9


def test_a_request_of_a_million_elements_is_refused_before_it_is_anything(kohort_broker: KohortBroker) -> None:
    # Three bytes each, and objects of 150 when they are read: a frame of the allowed 100 MB would be 6 GB.
    topics = b"\0" * 16 + b"\0\0"  # no id, a null name, no tags
    body = b"\xc1\x84\x3d" + topics * 1_000_000 + b"\0\0\0"
    with Peer(kohort_broker.bootstrap) as neighbour, Peer(kohort_broker.bootstrap) as hostile:
        neighbour.ping()
        before = kohort_broker.process.cpu_seconds()
        hostile.send(request(METADATA, 12, body, flexible=True))
        assert hostile.is_closed()
        neighbour.ping()
        assert kohort_broker.process.cpu_seconds() - before < 1.0
        told = kohort_broker.process
        until(30.0, "a line says why", lambda: any("has too many elements" in line for line in told.stderr))
