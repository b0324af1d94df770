"""Brokers over PostgreSQL: durable commits of one, and how long a group is without its coordinator when it is killed.

    python bench/bench_postgres.py [--seconds S] [--times N]

Needs gcc and Debian's postgresql; the server is one of its own, with fsync on. Commits are measured as bench_broker.py
does; beside the broker's CPU stands PostgreSQL's. The figures to reach: 20,000 commits of 10 partitions a second, and
5 seconds from SIGKILL to the first answered heartbeat with the default lease.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.bench_broker import (
    PARTITIONS,
    UNHELD,
    WORK,
    Connection,
    built_load,
    drive,
    join_groups,
    load_core,
    need_gcc,
    pinned,
    server_core,
)
from kohort.broker.groups import group_partition
from kohort.errors import ErrorCode
from kohort.log.cluster import OFFSETS_TOPIC
from kohort.log.postgres import read_image
from kohort.wire.messages import consumer_protocol
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.broker.peer import Peer
from tests.cluster.postgres import PostgresServer, Unavailable, running_postgres
from tests.interop.kohort import KohortBroker, kohort_to_kill, running_kohort

GROUP = "beating"
COMMITS_PER_S, ANSWERED_WITHIN_S = 20_000, 5.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="how long commits are measured")
    parser.add_argument("--times", type=int, default=5, help="how many brokers are killed, one after the other")
    given = parser.parse_args()
    need_gcc()
    try:
        with running_postgres() as server:
            commits(server, given.seconds)
            asyncio.run(failovers(server.fresh_database(), given.times))
    except Unavailable as missing:
        print(f"skipped: {missing}")
    return 0


def commits(server: PostgresServer, seconds: float) -> None:
    work = next(one for one in WORK if one.name.startswith("commits"))
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as scratch:
        load = built_load(Path(scratch))
        with pinned(server_core()):
            running = running_kohort("--postgres", server.fresh_database(), **UNHELD)
            broker = running.__enter__()
        try:
            with Connection(broker.bootstrap) as connection:
                members = join_groups(connection)
            before = server.cpu_seconds()
            began = time.monotonic()
            with pinned(load_core()):
                figure = drive(broker, load, work, members, seconds, warm=1.0)
            used = (server.cpu_seconds() - before) / (time.monotonic() - began)
        finally:
            running.__exit__(None, None, None)
    name = f"commits of {PARTITIONS} partitions"
    print(f"{name:40} {figure.value:9,.0f} per CPU second of the broker  ({figure.detail})")
    print(f"{'':40} PostgreSQL used {used:.2f} of a core; to reach: {COMMITS_PER_S:,}/s", flush=True)


async def failovers(dsn: str, times: int) -> None:
    """Two brokers; the one that coordinates is killed, and another started in its place."""
    found = []
    brokers: dict[int, tuple[KohortBroker, object]] = {}
    try:
        for node_id in (1, 2):
            start(brokers, dsn, node_id)
        member_id, generation_id = await join(await coordinator(dsn))
        beat = HeartbeatRequest(group_id=GROUP, generation_id=generation_id, member_id=member_id)
        for _ in range(times):
            killed = coordinator_id(dsn)
            image = read_image(dsn)
            (other,) = (node for number, node in image.nodes.items() if number != killed)
            peer = Peer(*await asyncio.open_connection(other.host, other.port))
            began = time.perf_counter()
            os.kill(brokers[killed][0].pid, signal.SIGKILL)
            while (await peer.ask(beat, 4, HeartbeatResponse)).error_code != ErrorCode.NONE:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            found.append(time.perf_counter() - began)
            peer.writer.close()
            await asyncio.to_thread(start, brokers, dsn, killed)
            await settled(dsn)
    finally:
        for broker, _ in brokers.values():
            broker.process.kill()
    told = f"{statistics.median(found):5.2f} s ({min(found):.2f} to {max(found):.2f})"
    print(f"killed, until a heartbeat is answered    {told}; to reach: {ANSWERED_WITHIN_S:.0f} s", flush=True)


def start(brokers: dict[int, tuple[KohortBroker, object]], dsn: str, node_id: int) -> None:
    # A heartbeat that is held is answered when its hold ends, and a member whose connections close is taken for gone.
    running = kohort_to_kill(
        "--postgres",
        dsn,
        "--node-id",
        str(node_id),
        group_initial_rebalance_delay_ms="0",
        group_heartbeat_hold_ms="0",
        group_disconnect_grace_ms="0",
    )
    brokers[node_id] = running.__enter__(), running


async def settled(dsn: str) -> None:
    while not ((image := read_image(dsn)).settled and len(image.nodes) == 2):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


def coordinator_id(dsn: str) -> int:
    image = read_image(dsn)
    topic = image.named(OFFSETS_TOPIC)
    assert topic is not None
    return image.leaders[topic.topic_id][group_partition(GROUP, topic.partitions)].node_id


async def coordinator(dsn: str) -> Peer:
    await settled(dsn)
    node = read_image(dsn).nodes[coordinator_id(dsn)]
    return Peer(*await asyncio.open_connection(node.host, node.port))


async def join(peer: Peer) -> tuple[str, int]:
    subscription = consumer_protocol.encode_subscription(consumer_protocol.Subscription(topics=["t"]), 1)
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=300_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )
    while (joined := await peer.ask(request, 3, JoinGroupResponse)).error_code != ErrorCode.NONE:
        assert joined.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), joined
        await asyncio.sleep(0.05)
    sync = SyncGroupRequest(group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id)
    await peer.ask(sync, 1, SyncGroupResponse)
    peer.writer.close()
    return joined.member_id, joined.generation_id


if __name__ == "__main__":
    sys.exit(main())
