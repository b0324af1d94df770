"""What one core serves: heartbeats and durable commits per server CPU second, time to start, memory when idle.

    python bench/bench_broker.py [--peer] [--seconds S]

A hundred single-member groups join, then each member's own request is replayed from its own connection by load.c
(needs gcc). Our server runs on one core and the load on another; CPU is what the kernel booked to the server. With
--peer Apache Kafka is measured in the same run, on every core, and the ratio printed; it does not sync its commits to
disk, ours does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))

from kohort.errors import ErrorCode
from kohort.wire.api import APIS, read_response_header, request_header
from kohort.wire.codec import Message, decode, encode
from kohort.wire.messages import consumer_protocol
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.interop.kafka import PRODUCTION, Unavailable, jars, running_kafka
from tests.interop.kohort import running_kohort
from tests.interop.process import ServerProcess

CONNECTIONS = 100
TOPIC = "bench"
PARTITIONS = 10

Answer = TypeVar("Answer", bound=Message)


class Broker(Protocol):
    @property
    def bootstrap(self) -> str: ...

    @property
    def process(self) -> ServerProcess: ...


@dataclass(frozen=True, slots=True)
class GroupMember:
    """The only member of its group, in its first generation."""

    group_id: str
    generation_id: int
    """Of a consumer group the member epoch."""
    member_id: str


@dataclass(frozen=True, slots=True)
class Work:
    """A request that every member repeats, `depth` of them in flight on each connection."""

    name: str
    version: int
    depth: int
    request: Callable[[GroupMember], Message]
    protocol: str = "classic"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number; `more_is_better` says which way a ratio of two should point."""

    name: str
    value: float
    unit: str
    detail: str = ""
    more_is_better: bool = True


class Connection:
    """A blocking connection that speaks by our own codec."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._stream = self._socket.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()

    def ask(self, request: Message, version: int, kind: type[Answer]) -> Answer:
        self._socket.sendall(framed(request, version))
        size = int.from_bytes(self._stream.read(4), "big")
        data = self._stream.read(size)
        _, position = read_response_header(data, request.KEY, version)
        return decode(kind, version, data[position:])


def framed(request: Message, version: int) -> bytes:
    body = request_header(request.KEY, version, 0, "bench") + encode(request, version)
    return len(body).to_bytes(4, "big") + body


def commits(count: int) -> Work:
    """Commits of this many partitions, up to PARTITIONS."""
    assert count <= PARTITIONS

    def request(member: GroupMember) -> OffsetCommitRequest:
        partitions = [OffsetCommitRequestPartition(partition_index=p, committed_offset=1000 + p) for p in range(count)]
        return OffsetCommitRequest(
            group_id=member.group_id,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
        )

    return Work(f"commits of {count} partition{'' if count == 1 else 's'}", version=8, depth=4, request=request)


WORK = (
    Work(
        "heartbeats, 1 in flight",
        version=4,
        depth=1,
        request=lambda m: HeartbeatRequest(group_id=m.group_id, generation_id=m.generation_id, member_id=m.member_id),
    ),
    Work(
        "heartbeats, 16 in flight",
        version=4,
        depth=16,
        request=lambda m: HeartbeatRequest(group_id=m.group_id, generation_id=m.generation_id, member_id=m.member_id),
    ),
    Work(
        "consumer heartbeats, 1 in flight",
        version=1,
        depth=1,
        request=lambda m: ConsumerGroupHeartbeatRequest(
            group_id=m.group_id, member_epoch=m.generation_id, member_id=m.member_id
        ),
        protocol="consumer",
    ),
    Work(
        "consumer heartbeats, 16 in flight",
        version=1,
        depth=16,
        request=lambda m: ConsumerGroupHeartbeatRequest(
            group_id=m.group_id, member_epoch=m.generation_id, member_id=m.member_id
        ),
        protocol="consumer",
    ),
    commits(PARTITIONS),
    commits(1),
)


UNHELD = {"group_initial_rebalance_delay_ms": "0", "group_heartbeat_hold_ms": "0"}
"""Settings of our broker: the load waits for each answer; bench_prompt.py measures the cost of held heartbeats."""


def need_gcc() -> None:
    """End the program with a sentence if the load generator cannot be built."""
    if shutil.which("gcc") is None:
        sys.exit("the load generator needs gcc (Debian: apt install gcc)")


def built_load(directory: Path) -> Path:
    """Build the load generator in a directory, and return its path."""
    load = directory / "load"
    subprocess.run(["gcc", "-O2", "-o", str(load), str(Path(__file__).with_name("load.c"))], check=True)
    return load


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the broker.")
    parser.add_argument("--peer", action="store_true", help="measure Apache Kafka too and print ratios")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each figure is measured (default 4)")
    options = parser.parse_args()

    need_gcc()
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as scratch:
        load = built_load(Path(scratch))
        store = ["--data", str(Path(scratch, "data"))]
        ours = measure(
            lambda: running_kohort(*store, **UNHELD),
            server_core(),
            load,
            options.seconds,
            warm=1.0,
        )
        peer: list[Figure] = []
        if options.peer:
            try:
                jars()
            except Unavailable as missing:
                print(f"without Apache Kafka: {missing}")
            else:
                # A JVM compiles what is hot in threads of its own: it gets longer to warm up, and every core.
                every_core = os.sched_getaffinity(0)
                peer = measure(lambda: running_kafka(jvm=PRODUCTION), every_core, load, options.seconds, warm=8.0)
    show(ours, peer)
    return 0


def measure(
    start: Callable[[], AbstractContextManager[Broker]],
    cpus: set[int],
    load: Path,
    seconds: float,
    warm: float,
    works: Sequence[Work] = WORK,
) -> list[Figure]:
    with contextlib.ExitStack() as running:
        with pinned(cpus):
            broker = running.enter_context(start())
        with Connection(broker.bootstrap) as connection:
            connection.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
            figures = [
                Figure(
                    "start to the first answer", time.monotonic() - broker.process.started_at, "s", more_is_better=False
                )
            ]
            resident = broker.process.rss_bytes() / 2**20
            figures.append(Figure("resident memory when idle", resident, "MB", more_is_better=False))
            members = join_groups(connection, running)
            for work in works:
                # These have shorter sessions than the others, which are asked once and for all.
                group = members if work.protocol == "classic" else join_consumer_groups(connection)
                with pinned(load_core()):
                    figures.append(drive(broker, load, work, group, seconds, warm))
        return figures


def join_groups(connection: Connection, running: contextlib.ExitStack | None = None) -> list[GroupMember]:
    """One group with one member per connection of the load, each with the whole topic.

    With `running`, which closes them, they join at the same time over connections of their own: Crabka has each new
    group wait for 3 s.
    """
    topics = [CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)]
    made = connection.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 4, CreateTopicsResponse)
    assert made.topics[0].error_code == 0, made
    deadline = time.monotonic() + 30
    # The first lookup makes Apache Kafka create __consumer_offsets.
    while connection.ask(FindCoordinatorRequest(key="bench-0"), 2, FindCoordinatorResponse).error_code:
        assert time.monotonic() < deadline, "no coordinator within 30 s"
        time.sleep(0.1)
    groups = [f"bench-{number}" for number in range(CONNECTIONS)]
    if running is None:
        return [join(connection, group_id) for group_id in groups]
    own = [running.enter_context(Connection(connection.bootstrap)) for _ in groups]
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        return list(threads.map(join, own, groups))


def join(connection: Connection, group_id: str) -> GroupMember:
    subscription = consumer_protocol.encode_subscription(consumer_protocol.Subscription(topics=[TOPIC]), 1)
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=300_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )
    deadline = time.monotonic() + 30
    while (joined := connection.ask(request, 3, JoinGroupResponse)).error_code:
        assert time.monotonic() < deadline, joined
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # Crabka's answer to this version, too
            request.member_id = joined.member_id
        else:
            time.sleep(0.1)  # COORDINATOR_LOAD_IN_PROGRESS at first
    mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"\0\0\0\0\0\0\0\0\0\0")
    synced = connection.ask(
        SyncGroupRequest(
            group_id=group_id, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[mine]
        ),
        1,
        SyncGroupResponse,
    )
    assert synced.error_code == 0, synced
    return GroupMember(group_id, joined.generation_id, joined.member_id)


def join_consumer_groups(connection: Connection) -> list[GroupMember]:
    """As `join_groups`, by the consumer protocol (KIP-848); again, if they are there."""
    members = []
    for number in range(CONNECTIONS):
        request = ConsumerGroupHeartbeatRequest(
            group_id=f"bench-consumer-{number}",
            member_id=f"member-{number}",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )
        joined = connection.ask(request, 1, ConsumerGroupHeartbeatResponse)
        assert joined.error_code == 0 and joined.assignment is not None, joined
        members.append(GroupMember(request.group_id, joined.member_epoch, request.member_id))
    return members


def drive(
    broker: Broker,
    load: Path,
    work: Work,
    members: list[GroupMember],
    seconds: float,
    warm: float,
    *,
    port: int | None = None,
    login: Path | None = None,
) -> Figure:
    """Have the load generator repeat the work, on the listener of `port` if given, after the requests of `login`."""
    check(broker, work, members[0])
    with tempfile.NamedTemporaryFile(suffix=".frames") as frames:
        frames.write(b"".join(framed(work.request(member), work.version) for member in members))
        frames.flush()
        at = port or int(broker.bootstrap.rpartition(":")[2])
        command = [str(load), str(at), str(len(members)), str(work.depth), str(warm), str(seconds), frames.name]
        if login is not None:
            command.append(str(login))
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begin\n", "the load generator failed"
            before = broker.process.cpu_seconds()
            result = json.loads(process.stdout.readline())
            used = broker.process.cpu_seconds() - before
    assert result["odd"] == 0, f"{result['odd']} answers to {work.name} differ from the first"
    rate = result["answers"] / result["seconds"]
    detail = f"{rate:,.0f}/s, p50 {result['p50_us'] / 1000:.2f} ms, p99 {result['p99_us'] / 1000:.2f} ms"
    return Figure(work.name, result["answers"] / used, "per CPU second", detail)


def check(broker: Broker, work: Work, member: GroupMember) -> None:
    """The request that will be repeated succeeds."""
    request = work.request(member)
    with Connection(broker.bootstrap) as connection:
        match connection.ask(request, work.version, APIS[request.KEY].response):
            case HeartbeatResponse(error_code=0):
                return
            case ConsumerGroupHeartbeatResponse(error_code=0, assignment=None):
                return
            case OffsetCommitResponse(topics=topics) if not any(p.error_code for t in topics for p in t.partitions):
                return
            case answer:
                raise AssertionError(f"{work.name}: {answer}")


def load_core() -> set[int]:
    return {max(os.sched_getaffinity(0))}


def server_core() -> set[int]:
    """Not the load's, where there are two."""
    return {min(os.sched_getaffinity(0))}


@contextlib.contextmanager
def pinned(cpus: set[int]) -> Iterator[None]:
    """What is started inside runs on these cores only, with all its threads."""
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def show(ours: list[Figure], peer: list[Figure], peers_name: str = "Apache Kafka") -> None:
    theirs = {figure.name: figure for figure in peer}
    for figure in ours:
        line = f"{figure.name:42} {number(figure.value):>10} {figure.unit:15}"
        if (other := theirs.get(figure.name)) is not None:
            better = figure.value / other.value if figure.more_is_better else other.value / figure.value
            line += f" {peers_name} {number(other.value):>8}, ours {better:.2f} times better"
        print(f"{line}  {figure.detail}".rstrip())


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


if __name__ == "__main__":
    sys.exit(main())
