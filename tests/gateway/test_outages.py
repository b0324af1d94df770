"""A gateway that dies or is cut off, and brokers that fail, move, come and go.

No acknowledged commit is lost, no member is fenced, and all members go on within ten seconds.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from kohort.gateway import Address, Gateway, GatewayOptions
from kohort.lab.apache_kafka import free_ports
from kohort.lab.process import ServerProcess
from tests.cluster.conftest import StartCluster
from tests.conftest import need_jars
from tests.gateway.outages import OurMember, busy_group
from tests.gateway.ports import consecutive_free_ports
from tests.gateway.relay import Relay
from tests.interop.kafka import running_kafka_pair
from tests.interop.kohort import kohort, running_kohort

pytestmark = pytest.mark.timeout(120)
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
# By default, Kohort's broker takes a member without a connection for dead after some seconds.
QUICK = {"group_initial_rebalance_delay_ms": "0", "group_disconnect_grace_ms": "30000"}


def address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host, int(port))


@asynccontextmanager
async def gateway_to(*upstream: str, groups_only: bool = False) -> AsyncIterator[str]:
    where = [address(one) for one in upstream]
    options = GatewayOptions(where, Address("127.0.0.1", 0), groups_only=groups_only)
    async with Gateway(options) as gateway:
        yield str(gateway.address)


@PROTOCOLS
async def test_members_go_on_when_a_gateway_is_killed_and_started_again(protocol: str) -> None:
    port = consecutive_free_ports(3)
    with running_kohort(**QUICK) as broker:
        command = kohort(
            *("gateway", "--upstream", broker.bootstrap, "--listen", f"127.0.0.1:{port}", "--node-ids", "1-2")
        )
        process = ServerProcess(command)
        try:
            process.wait_for("^ready ", 20.0)
            async with busy_group(f"127.0.0.1:{port}", protocol) as group:
                for joins in (False, True, False):
                    if joins:
                        group.join()  # so that it dies while partitions move
                        await asyncio.sleep(0.2)
                    process.kill()
                    process = process.again()
                    await asyncio.to_thread(process.wait_for, "^ready ", 20.0)
                    await group.progress()
                    group.check_ownership()
                await group.check_commits(broker.bootstrap)
        finally:
            process.kill()


@PROTOCOLS
@pytest.mark.parametrize("how", ["refused", "silent"])
async def test_members_go_on_when_the_gateway_is_cut_off_for_a_while(protocol: str, how: str) -> None:
    async with Relay() as relay:
        (port,) = free_ports(1)
        relay.target = "127.0.0.1", port
        where, seen = f"127.0.0.1:{port}", f"PLAINTEXT://127.0.0.1:{relay.port}"
        with running_kohort(listen=where, advertised_listeners=seen, **QUICK) as broker:
            async with gateway_to(f"127.0.0.1:{relay.port}") as gateway, busy_group(gateway, protocol) as group:
                for seconds in (0.5, 4.0):
                    relay.cut(silent=how == "silent")
                    await asyncio.sleep(seconds)  # as long as the network is down
                    relay.mend()
                    await group.progress()
                    group.check_ownership()
                await group.check_commits(broker.bootstrap)


@pytest.mark.long("brokers start and end for half a minute")
@PROTOCOLS
@pytest.mark.parametrize("groups_only", [False, True])
async def test_members_go_on_when_brokers_fail(protocol: str, groups_only: bool, start_cluster: StartCluster) -> None:
    with start_cluster("--restart") as cluster:
        where = cluster.bootstrap.split(",")
        async with (
            gateway_to(*where, groups_only=groups_only) as gateway,
            busy_group(gateway, protocol) as group,
        ):
            for node_id in (1, 2, 3):  # one of them is the coordinator of the group
                before = cluster.process_id(node_id)
                cluster.signal(node_id, signal.SIGKILL)
                await group.progress()
                await asyncio.to_thread(cluster.came_back, node_id, before)
                await group.progress()
                group.check_ownership()
            await group.check_commits(cluster.bootstrap)


@contextmanager
def broker_of(data: Path, node_id: int, port: int) -> Iterator[ServerProcess]:
    """One broker of a cluster over a directory."""
    settings = ("--set", "offsets.topic.num.partitions=9", "--set", "group.initial.rebalance.delay.ms=0")
    where = ("--shared", "--data", str(data), "--listen", f"127.0.0.1:{port}")
    process = ServerProcess(kohort("broker", *where, "--node-id", str(node_id), *settings))
    try:
        process.wait_for("^ready ", 20.0)
        yield process
    finally:
        process.stop()


@pytest.mark.long("brokers start and end for half a minute")
@PROTOCOLS
async def test_members_go_on_when_brokers_move(protocol: str, tmp_path: Path) -> None:
    first, *others = free_ports(4)
    with broker_of(tmp_path / "data", 1, first), broker_of(tmp_path / "data", 2, others[0]) as second:
        async with gateway_to(f"127.0.0.1:{first}") as gateway, busy_group(gateway, protocol) as group:
            second.kill()
            with broker_of(tmp_path / "data", 2, others[1]):
                await group.progress()
            with broker_of(tmp_path / "data", 2, others[2]):
                await group.progress()
                await group.check_commits(f"127.0.0.1:{first}")


@pytest.mark.long("brokers start and end for half a minute")
@PROTOCOLS
async def test_members_go_on_when_brokers_come_and_go(protocol: str, tmp_path: Path) -> None:
    ports = free_ports(3)
    with broker_of(tmp_path / "data", 1, ports[0]):
        async with gateway_to(f"127.0.0.1:{ports[0]}") as gateway, busy_group(gateway, protocol) as group:
            for _ in range(2):
                with broker_of(tmp_path / "data", 2, ports[1]), broker_of(tmp_path / "data", 7, ports[2]):
                    await group.progress()
                await group.progress()
            await group.check_commits(f"127.0.0.1:{ports[0]}")


@pytest.mark.kafka
@PROTOCOLS
async def test_members_go_on_when_a_broker_of_apache_kafka_fails(protocol: str, request: pytest.FixtureRequest) -> None:
    need_jars(request.config)
    settings = {
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": "2",
        "min.insync.replicas": "1",
    }
    with running_kafka_pair(("a", "b"), settings) as (first, second):
        async with gateway_to(first.bootstrap) as gateway:
            async with busy_group(gateway, protocol, replicas=2) as group:
                for number in range(2):
                    second.process.kill()
                    await group.progress()
                    await asyncio.to_thread(second.start_again)
                    await group.progress()
                    group.check_ownership()
                    if not number:
                        group.join(OurMember)
                        await group.progress()
                await group.check_commits(first.bootstrap)
