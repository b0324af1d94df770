"""What a gateway costs: CPU per megabyte and latency beside a plain TCP relay, and the CPU of idle members.

    python bench/bench_gateway.py [--mb N] [--rounds N] [--members N] [--settle S] [--seconds S] [--only-idle]

The relay is the same event loop without any reading of frames. Both are in front of a process that
answers like a broker and does no work. Fetch answers have 1 MB, in version 17, whose end the gateway
must read. Rounds of both alternate, so that their ratio is that of one run. CPU is that of the
process of the gateway or the relay alone. All share the machine: latencies are those of a loaded one.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import uvloop

sys.path.insert(0, str(Path(__file__).parents[1]))

from kohort.gateway import Address, Gateway, GatewayOptions
from kohort.wire.api import read_request_header, request_header, response_header
from kohort.wire.codec import decode, encode
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FETCH, PRODUCE, HEARTBEAT = 17, 12, 1
JOIN, SYNC, CLASSIC_HEARTBEAT = 5, 3, 3
"""Versions."""
COUNT = 32_000
"""API key with which the load asks how many heartbeats the upstream process received."""
LARGE = 1 << 20
CONNECTIONS, IN_FLIGHT = 4, 2
INTERVALS_MS = {"consumer": 5_000, "classic": 3_000}
"""Time between two heartbeats of a member by protocol: the defaults."""
SESSION_MS = 45_000
_BIG = 1 << 20
"""Correlation IDs from here on get a large answer."""


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


class Frames(asyncio.Protocol):
    """Cuts frames."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._rest = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._rest += data
        while len(self._rest) >= 4:
            size = 4 + int.from_bytes(self._rest[:4], "big")
            if len(self._rest) < size:
                return
            one = bytes(self._rest[4:size])
            del self._rest[:size]
            self.frame(one)

    def frame(self, data: bytes) -> None:
        raise NotImplementedError


class Upstream(Frames):
    """Answers like a broker."""

    heartbeats = 0
    fetched = encode(
        FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=[bytes(LARGE)])])]), FETCH
    )
    nothing = encode(FetchResponse(), FETCH)
    produced = encode(ProduceResponse(), PRODUCE)

    def frame(self, data: bytes) -> None:
        key, version, correlation = struct.unpack_from(">hhi", data)
        body = b""
        if key == ApiKey.FETCH:
            body = self.fetched if correlation >= _BIG else self.nothing
        elif key == ApiKey.PRODUCE:
            body = self.produced
        elif key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
            Upstream.heartbeats += 1
            body = self._heartbeat(data)
        elif key == ApiKey.HEARTBEAT:
            Upstream.heartbeats += 1
            body = encode(HeartbeatResponse(), CLASSIC_HEARTBEAT)
        elif key == ApiKey.JOIN_GROUP:
            body = self._join(data)
        elif key == ApiKey.SYNC_GROUP:
            body = encode(SyncGroupResponse(assignment=b"assignment"), SYNC)
        elif key == COUNT:
            self.transport.write(frame(struct.pack(">ii", correlation, Upstream.heartbeats)))
            return
        else:
            return  # the gateway's own questions
        self.transport.write(frame(response_header(key, version, correlation) + body))

    def _join(self, data: bytes) -> bytes:
        """Answer as if all members had joined together, with a leader that does not use the gateway."""
        request = decode(JoinGroupRequest, JOIN, data[read_request_header(data).body :])
        told = JoinGroupResponse(
            generation_id=1,
            protocol_name="range",
            leader="leader",
            member_id=request.member_id,
        )
        return encode(told, JOIN)

    def _heartbeat(self, data: bytes) -> bytes:
        request = decode(ConsumerGroupHeartbeatRequest, HEARTBEAT, data[read_request_header(data).body :])
        told = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=1,
            heartbeat_interval_ms=INTERVALS_MS["consumer"],
            assignment=None if request.member_epoch else Assignment(topic_partitions=[]),
        )
        return encode(told, HEARTBEAT)


class Relay(asyncio.Protocol):
    """One of two connections of a plain relay."""

    transport: asyncio.Transport

    def __init__(self, other: Relay | None, port: int) -> None:
        self.other, self._port, self._early = other, port, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self.other is None:
            self.transport.pause_reading()
            self._task = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        other = Relay(self, 0)
        await asyncio.get_running_loop().create_connection(lambda: other, "127.0.0.1", self._port)
        self.other = other
        other.transport.write(self._early)
        self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early += data  # a loop may read once before it can be told to pause
        else:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        assert self.other is not None
        self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        assert self.other is not None
        self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()


async def serve(role: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    if role == "gateway":
        async with Gateway(GatewayOptions([Address("127.0.0.1", port)], Address("127.0.0.1", 0))) as gateway:
            print(gateway.address.port, flush=True)
            await asyncio.Event().wait()
    make = Upstream if role == "upstream" else lambda: Relay(None, port)
    server = await loop.create_server(make, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@dataclass
class Process:
    name: str
    port: int
    pid: int
    mb_per_s: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)

    def cpu_s(self) -> float:
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[0]) / 1e9


@contextmanager
def running(role: str, upstream: int = 0) -> Iterator[Process]:
    command = [sys.executable, __file__, "--role", role, "--upstream", str(upstream)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield Process(role, int(process.stdout.readline()), process.pid)
    finally:
        process.kill()
        process.wait()


class Asking(Frames):
    """A client with one request in flight for each future."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        (correlation,) = struct.unpack_from(">i", request, 4)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = answer
        self.transport.write(frame(request))
        return answer

    def frame(self, data: bytes) -> None:
        answer = self._waiting.pop(int.from_bytes(data[:4], "big"))
        if not answer.cancelled():
            answer.set_result(data)


async def connected(port: int) -> Asking:
    _, made = await asyncio.get_running_loop().create_connection(Asking, "127.0.0.1", port)
    return made


def fetch(correlation: int) -> bytes:
    return request_header(ApiKey.FETCH, FETCH, correlation, "bench") + encode(FetchRequest(), FETCH)


def produce(correlation: int) -> bytes:
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(partition_data=[])])
    return request_header(ApiKey.PRODUCE, PRODUCE, correlation, "bench") + encode(request, PRODUCE) + bytes(LARGE)


async def move(process: Process, make: object, mb: int) -> float:
    """Return megabytes per CPU second of the process."""
    connections = [await connected(process.port) for _ in range(CONNECTIONS)]
    correlations = itertools.count(_BIG)

    async def turn(one: Asking, count: int) -> None:
        for _ in range(count):
            await one.ask(make(next(correlations)))  # type: ignore[operator]

    before = process.cpu_s()
    turns = max(mb // (CONNECTIONS * IN_FLIGHT), 1)
    await asyncio.gather(*(turn(one, turns) for one in connections for _ in range(IN_FLIGHT)))
    used = process.cpu_s() - before
    for one in connections:
        one.transport.close()
    return turns * CONNECTIONS * IN_FLIGHT * LARGE / 1e6 / used


async def latency(process: Process, count: int = 3_000) -> None:
    one, took = await connected(process.port), []
    for correlation in range(count):
        began = time.perf_counter()
        await one.ask(fetch(correlation))
        took.append(time.perf_counter() - began)
    one.transport.close()
    took.sort()
    process.p50.append(took[count // 2] * 1e6)
    process.p99.append(took[count * 99 // 100] * 1e6)


async def classic_member(port: int, number: int, sent: list[int]) -> None:
    """Join, and send heartbeats like a client, whose timer begins when it sends one. One is in flight at a time."""
    one, loop, member_id = await connected(port), asyncio.get_running_loop(), f"member-{number:04}"
    joining = JoinGroupRequest(
        group_id="classic",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=300_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"subscription")],
    )
    syncing = SyncGroupRequest(group_id="classic", generation_id=1, member_id=member_id)
    await one.ask(request_header(ApiKey.JOIN_GROUP, JOIN, 1, "bench") + encode(joining, JOIN))
    await one.ask(request_header(ApiKey.SYNC_GROUP, SYNC, 2, "bench") + encode(syncing, SYNC))
    sent_at = loop.time()
    beat = encode(HeartbeatRequest(group_id="classic", generation_id=1, member_id=member_id), CLASSIC_HEARTBEAT)
    for correlation in itertools.count(3):
        await asyncio.sleep(sent_at + INTERVALS_MS["classic"] / 1000 - loop.time())
        sent[0] += 1
        sent_at = loop.time()
        await one.ask(request_header(ApiKey.HEARTBEAT, CLASSIC_HEARTBEAT, correlation, "bench") + beat)


async def consumer_member(port: int, number: int, sent: list[int]) -> None:
    """Send heartbeats like a client, whose timer begins when it sends one."""
    one, loop = await connected(port), asyncio.get_running_loop()
    for correlation in itertools.count():
        request = ConsumerGroupHeartbeatRequest(
            group_id="group", member_id=f"member-{number:04}", member_epoch=min(correlation, 1)
        )
        if not correlation:
            request.subscribed_topic_names, request.topic_partitions = ["topic"], []
            request.rebalance_timeout_ms = 300_000
        header = request_header(ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, correlation, "bench")
        sent[0] += 1
        sent_at = loop.time()
        answer = await one.ask(header + encode(request, HEARTBEAT))
        start = len(response_header(ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, correlation))
        told = decode(ConsumerGroupHeartbeatResponse, HEARTBEAT, answer[start:])
        await asyncio.sleep(sent_at + told.heartbeat_interval_ms / 1000 - loop.time())


async def heartbeats(upstream: Process) -> int:
    one = await connected(upstream.port)
    answer = await one.ask(struct.pack(">hhih", COUNT, 0, 1, -1))
    one.transport.close()
    return int.from_bytes(answer[4:8], "big")


MEMBERS = {"consumer": consumer_member, "classic": classic_member}


async def idle(upstream: Process, process: Process, protocol: str, members: int, settle: float, seconds: float) -> None:
    """Print the CPU of a gateway or a relay with idle members of one group."""
    sent = [0]
    tasks = []
    for number in range(members):
        tasks.append(asyncio.create_task(MEMBERS[protocol](process.port, number, sent)))
        await asyncio.sleep(0.005)  # they do not join as one
    await asyncio.sleep(settle)
    cpu, count, begun, own = process.cpu_s(), await heartbeats(upstream), time.monotonic(), sent[0]
    await asyncio.sleep(seconds)
    took = time.monotonic() - begun
    used, asked = process.cpu_s() - cpu, await heartbeats(upstream) - count
    print(
        f"{process.name:8} {members} idle members of a {protocol} group: {100 * used / took:5.2f} % of a core,"
        f" clients send {(sent[0] - own) / took:6.1f} heartbeats/s, upstream receives {asked / took:6.1f}/s"
        f" ({asked / took / (members * 1000 / INTERVALS_MS[protocol]):4.2f} times those without a gateway)"
    )
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def measure(options: argparse.Namespace) -> None:
    with running("upstream") as upstream:
        if not options.only_idle:
            await bytes_and_latency(upstream, options)
        for protocol in MEMBERS:
            for role, settle in (("relay", 5.0), ("gateway", options.settle)):
                with running(role, upstream.port) as process:  # one with members of this group alone
                    await idle(upstream, process, protocol, options.members, settle, options.seconds)


async def bytes_and_latency(upstream: Process, options: argparse.Namespace) -> None:
    with running("relay", upstream.port) as relay:
        with running("gateway", upstream.port) as gateway:
            for name, make in (("fetched", fetch), ("produced", produce)):
                for process in (relay, gateway):
                    process.mb_per_s.clear()
                for _ in range(options.rounds):
                    for process in (relay, gateway):
                        process.mb_per_s.append(await move(process, make, options.mb))
                for process in (relay, gateway):
                    print(f"{process.name:8} {name:8} {statistics.median(process.mb_per_s):6.0f} MB per CPU second")
                pairs = zip(gateway.mb_per_s, relay.mb_per_s, strict=True)
                print(f"ratio    {name:8} {statistics.median(one / other for one, other in pairs):6.2f}")
            for _ in range(options.rounds):
                for process in (upstream, relay, gateway):
                    await latency(process)
            for process in (upstream, relay, gateway):
                print(
                    f"{process.name:8} round trip p50 {statistics.median(process.p50):5.0f} us,"
                    f" p99 {statistics.median(process.p99):5.0f} us"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a gateway costs.")
    parser.add_argument("--mb", type=int, default=400, help="megabytes in each round (default 400)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds in turns (default 5)")
    parser.add_argument("--members", type=int, default=1_000, help="idle members (default 1,000)")
    parser.add_argument(
        "--settle",
        type=float,
        default=65.0,
        help="seconds before idle members are measured; members send more heartbeats for the first 60 (default 65)",
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="time in which idle members are measured")
    parser.add_argument("--only-idle", action="store_true", help="measure idle members only")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--upstream", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    uvloop.run(measure(options) if options.role is None else serve(options.role, options.upstream))


if __name__ == "__main__":
    main()
