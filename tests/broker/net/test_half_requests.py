"""`frame.read.timeout.ms`: how long a request may take to arrive, by a clock that begins anew with each request."""

import asyncio
import struct
from itertools import pairwise

import pytest

from kohort.wire.api import request_header
from kohort.wire.codec import encode
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.peer import Peer
from tests.broker.virtual import VirtualBroker, in_virtual_time

TIMEOUT_S = 30
"""The default."""


def request(correlation_id: int, topics: int = 1) -> bytes:
    """One request; of a thousand topics, it is larger than what the broker reads at once."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=f"{number:0100}") for number in range(topics)])
    asked.allow_auto_topic_creation = False
    frame = request_header(MetadataRequest.KEY, 4, correlation_id, "peer") + encode(asked, 4)
    return struct.pack(">i", len(frame)) + frame


async def answered(peer: Peer, count: int) -> list[int]:
    """The correlation ids of the next answers."""
    return [struct.unpack_from(">i", await peer.receive_frame())[0] for _ in range(count)]


@pytest.mark.parametrize("topics", [1, 1_000], ids=["small requests", "requests larger than a read"])
def test_a_client_that_pipelines_stays_though_each_of_its_writes_ends_inside_a_request(topics: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        requests = [request(number, topics) for number in range(10)]
        middle = len(requests[0]) // 2
        peer.writer.write(requests[0][:middle])
        for before, after in pairwise(requests):
            await asyncio.sleep(0.9 * TIMEOUT_S)
            peer.writer.write(before[middle:] + after[:middle])
        peer.writer.write(requests[-1][middle:])
        assert await answered(peer, 10) == list(range(10))

    in_virtual_time(steps)


def test_a_peer_that_sends_a_request_byte_by_byte_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        peer.writer.write(request(1))  # that it has sent a whole one before does not help it
        assert await answered(peer, 1) == [1]
        began = world.loop.time()
        closed = asyncio.ensure_future(peer.closed())
        slow = request(2, topics=10)
        for byte in slow:
            peer.writer.write(bytes([byte]))
            await asyncio.wait([closed], timeout=1)
            if closed.done():
                break
        assert closed.done() and closed.result()
        assert TIMEOUT_S < world.loop.time() - began < TIMEOUT_S + 3

    in_virtual_time(steps)
    assert "a request did not arrive completely within frame.read.timeout.ms" in caplog.text


def test_the_clock_begins_with_the_request_that_is_not_whole() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        first, second = request(1), request(2)
        peer.writer.write(first[:5])
        await asyncio.sleep(0.9 * TIMEOUT_S)
        began = world.loop.time()
        peer.writer.write(first[5:] + second[:5])
        assert await answered(peer, 1) == [1]
        assert await peer.closed()
        assert TIMEOUT_S < world.loop.time() - began < TIMEOUT_S + 3

    in_virtual_time(steps)


@pytest.mark.parametrize("topics", [1, 1_000], ids=["a small request", "a request larger than a read"])
def test_time_in_which_the_broker_reads_nothing_does_not_count(topics: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        whole = request(1, topics)
        middle = 3 * len(whole) // 4
        peer.writer.write(whole[:middle])
        await asyncio.sleep(0.9 * TIMEOUT_S)
        (connection,) = world.broker.sockets._connections
        connection.throttle()  # as when the log has too much to write
        await asyncio.sleep(3 * TIMEOUT_S)
        connection.unthrottle()
        await asyncio.sleep(0.9 * TIMEOUT_S)
        peer.writer.write(whole[middle:])
        assert await answered(peer, 1) == [1]

    in_virtual_time(steps)


@pytest.mark.parametrize("topics", [1, 1_000], ids=["a small request", "a request larger than a read"])
def test_the_time_limit_restarts_when_the_broker_reads_again(topics: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        whole = request(1, topics)
        peer.writer.write(whole[: 3 * len(whole) // 4])
        await asyncio.sleep(1.0)
        (connection,) = world.broker.sockets._connections
        connection.throttle()
        await asyncio.sleep(3 * TIMEOUT_S)
        connection.unthrottle()
        began = world.loop.time()
        assert await peer.closed()
        assert TIMEOUT_S < world.loop.time() - began < TIMEOUT_S + 3

    in_virtual_time(steps)
