"""Fifty connections that mean harm, in a process of their own: `python -m tests.hostile.strangers HOST:PORT SECONDS`.

Ten ways, five connections each, each begun again when the broker ends it. What every way has sent is printed as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from tests.hostile.peer import API_VERSIONS, HEARTBEAT, METADATA, PRODUCE, Batch, frame, request, string
from tests.interop.crowd import SUBSCRIPTION, framed

EACH = 5
TOPIC = "heavy"
_NONE = struct.pack(">i", 0)
_ALL = struct.pack(">i", -1)
_MILLION = b"\xc1\x84\x3d" + (b"\0" * 18) * 1_000_000 + b"\0\0\0"

Way = Callable[["Stranger"], Awaitable[None]]


class Stranger:
    """One connection at a time, and dice."""

    def __init__(self, address: tuple[str, int], seed: int, sent: Counter[str]) -> None:
        self.address = address
        self.dice = random.Random(seed)
        self.sent = sent

    async def be(self, way: Way) -> None:
        """Do that over and over; however the broker ends a connection is fine."""
        while True:
            try:
                self.reader, self.writer = await asyncio.open_connection(*self.address)
                await way(self)
                self.writer.close()
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.01)
            self.sent[f"{way.__name__} connections"] += 1

    async def send(self, way: str, data: bytes) -> None:
        """Wait until the broker takes it."""
        self.writer.write(data)
        await self.writer.drain()
        self.sent[way] += 1

    async def answer(self) -> None:
        """Read one, and look at nothing in it."""
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        await self.reader.readexactly(size)

    async def closed(self) -> None:
        """Read until the broker ends it."""
        while await self.reader.read(1 << 16):
            pass


async def garbage(stranger: Stranger) -> None:
    await stranger.send("garbage", frame(b"\x7f" + stranger.dice.randbytes(stranger.dice.choice((10, 1_000, 60_000)))))
    await stranger.closed()


async def slow_loris(stranger: Stranger) -> None:
    whole = request(METADATA, 1, _ALL)
    for byte in whole[: stranger.dice.randrange(len(whole))]:
        await stranger.send("slow loris", bytes([byte]))
        await asyncio.sleep(0.05)
    await stranger.closed()


async def half_frames(stranger: Stranger) -> None:
    await stranger.send("half frames", struct.pack(">i", 100_000_000) + stranger.dice.randbytes(200_000))
    await stranger.closed()


async def huge_counts(stranger: Stranger) -> None:
    bodies = (
        request(METADATA, 1, struct.pack(">i", 2**31 - 1)),
        request(METADATA, 12, b"\xff\xff\xff\xff\x0f", flexible=True),
        request(METADATA, 12, _MILLION, flexible=True),
        request(OffsetCommitRequest.KEY, 2, string("g") + struct.pack(">i", 0) + string("m") + b"\x7f\xff\xff\xff" * 9),
    )
    await stranger.send("huge counts", stranger.dice.choice(bodies))
    await stranger.closed()


async def flood(stranger: Stranger) -> None:
    beat = string("nobody") + struct.pack(">i", 1) + string("nobody")
    some = request(API_VERSIONS, 0) * 20 + request(METADATA, 1, _ALL) * 5 + request(HEARTBEAT, 0, beat) * 50
    while True:
        await stranger.send("flood", some)
        for _ in range(75):
            await stranger.answer()


async def never_reads(stranger: Stranger) -> None:
    sock = stranger.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    stranger.writer.transport.pause_reading()  # type: ignore[attr-defined]
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10 << 20)
    fetch = FetchRequest(topics=[FetchTopic(topic=TOPIC, partitions=[partition])], max_bytes=10 << 20)
    for _ in range(3_000):
        await stranger.send("never reads", framed(fetch, 4))
    await asyncio.sleep(3_600)


async def resets(stranger: Stranger) -> None:
    sock = stranger.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stranger.send("resets", request(METADATA, 1, _ALL) * stranger.dice.randrange(1, 50) + b"\0\0")
    await asyncio.sleep(stranger.dice.random() / 50)
    stranger.writer.transport.abort()


async def silence(stranger: Stranger) -> None:
    stranger.sent["silence"] += 1
    await stranger.closed()


async def joins(stranger: Stranger) -> None:
    join = JoinGroupRequest(
        group_id="ghosts",
        session_timeout_ms=6_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )
    for _ in range(20):
        await stranger.send("joins", framed(join, 2) * 20)  # of a version that makes a member of each
    await asyncio.sleep(1.0)


async def wrong_batches(stranger: Stranger) -> None:
    batch = bytes(Batch(values=(stranger.dice.randbytes(500_000),), crc=1))
    head = struct.pack(">hhii", -1, 1, 10_000, 1) + string(TOPIC) + struct.pack(">iii", 1, 0, len(batch))
    for _ in range(20):
        await stranger.send("wrong batches", request(PRODUCE, 3, head + batch))
        await stranger.answer()


WAYS: tuple[Way, ...] = (
    *(garbage, slow_loris, half_frames, huge_counts, flood),
    *(never_reads, resets, silence, joins, wrong_batches),
)


async def main(bootstrap: str, seconds: float) -> Counter[str]:
    """Run all of them for that time."""
    host, _, port = bootstrap.rpartition(":")
    sent: Counter[str] = Counter()
    strangers = [(Stranger((host, int(port)), number, sent), way) for number in range(EACH) for way in WAYS]
    tasks = [asyncio.ensure_future(stranger.be(way)) for stranger, way in strangers]
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in tasks:
        task.cancel()
    for task in done:
        task.result()  # our own fault
    return sent


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], float(sys.argv[2])))))
