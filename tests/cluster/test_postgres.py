"""A cluster over PostgreSQL: brokers die, stand still, lose the database; groups and records stay as they were."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kohort.errors import ErrorCode
from kohort.log.cluster import ClusterImage
from kohort.log.postgres.home import read_image
from kohort.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kohort.wire.records import Record, encode_batch
from tests.cluster.conftest import RunningCluster
from tests.cluster.postgres import PostgresServer, running_postgres
from tests.cluster.test_failover import Readers, connected, coordinator, generation, produce, topic_of
from tests.cluster.wire import wire_to
from tests.interop.kohort import kohort, running_kohort
from tests.interop.process import ServerProcess, until

pytestmark = pytest.mark.timeout(240)

SETTINGS = ("--set", "offsets.topic.num.partitions=9", "--set", "group.initial.rebalance.delay.ms=100")


class OverPostgres(RunningCluster):
    """A running `kohort cluster` over a database."""

    @property
    def image(self) -> ClusterImage:
        return read_image(str(self.data))

    def process_id(self, node_id: int) -> int:
        named = b"--node-id\0%d\0" % node_id
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) == self.process.pid and named in (entry / "cmdline").read_bytes():
                    return int(entry.name)
        return -1


Start = Callable[..., AbstractContextManager[OverPostgres]]


@pytest.fixture
def start(postgres: PostgresServer) -> Start:
    @contextlib.contextmanager
    def started(*options: str, dsn: str | None = None) -> Iterator[OverPostgres]:
        dsn = dsn or postgres.fresh_database()
        process = ServerProcess(kohort("cluster", "--brokers", "3", "--postgres", dsn, *SETTINGS, *options))
        with contextlib.ExitStack() as stack:
            stack.callback(process.kill)
            ready = process.wait_for(r"^ready (\S+)$", timeout=60.0)
            cluster = OverPostgres(ready[1], Path(dsn), process)
            stack.callback(cluster.wake)
            yield cluster
            code = process.stop(60.0)
            assert code == 0, f"the cluster ended with {code} after SIGTERM\n{process.output()}"

    return started


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_killed_coordinator_costs_no_rebalance_no_record_and_no_commit(start: Start, protocol: str) -> None:
    with start() as cluster:
        await topic_of(cluster)
        async with Readers(cluster, 3, group_protocol=protocol).running() as readers:
            await produce(cluster, 0, 300)
            await readers.until_read(300)
            owned = readers.assigned
            killed = coordinator(cluster)
            cluster.signal(killed, signal.SIGKILL)
            await produce(cluster, 300, 300)
            await readers.until_read(600)
            assert killed not in cluster.image.nodes
            assert (readers.assigned, readers.lost) == (owned, 0), "nobody's partitions moved"
            assert await generation(cluster) == ("Stable", 3)
        values = [one[3] for one in readers.read]
        assert len(values) == len(set(values)) == 600, "nothing is read twice by a group that did not rebalance"


@pytest.mark.parametrize("abruptly", [False, True])
async def test_a_database_that_restarts_costs_nothing_but_time(start: Start, *, abruptly: bool) -> None:
    with running_postgres() as server, start(dsn=server.dsn()) as cluster:
        await topic_of(cluster)
        async with Readers(cluster, 3).running() as readers:
            await produce(cluster, 0, 120)
            owned = readers.assigned
            writing = asyncio.create_task(produce(cluster, 120, 300))
            await asyncio.to_thread(server.kill if abruptly else server.stop)
            await asyncio.to_thread(server.start)
            await writing
            await readers.until_read(420)
            assert (readers.assigned, readers.lost) == (owned, 0), "nobody's partitions moved"
        values = [one[3] for one in readers.read]
        assert sorted(map(int, filter(None, values))) == list(range(420)), "each record once"
        assert len(cluster.image.nodes) == 3


async def test_a_zombie_acknowledges_nothing_and_ends(start: Start) -> None:
    with start("--set", "broker.lease.ms=1000", "--restart") as cluster:
        await topic_of(cluster)
        image = cluster.image
        topic = image.named("t")
        assert topic is not None
        zombie = image.leaders[topic.topic_id][0].node_id
        before = cluster.process_id(zombie)
        async with connected(cluster.address(zombie)) as peer:
            data = PartitionProduceData(index=0, records=encode_batch([Record(0, 0, None, b"late", ())]))
            request = ProduceRequest(
                acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
            )
            cluster.signal(zombie, signal.SIGSTOP)
            cluster.without(zombie)
            peer.send(request, 12)
            cluster.wake()
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                answer = await peer.answer(ProduceResponse)
                assert answer.responses[0].partition_responses[0].error_code != ErrorCode.NONE
        until(30.0, "the zombie has ended", lambda: cluster.process_id(zombie) not in (before, -1))
        assert "was declared dead" in cluster.process.output()
        cluster.whole(3, timeout=30.0)
        async with Readers(cluster, 1).running() as readers:
            await produce(cluster, 0, 60)
            await readers.until_read(60)
        assert all(one[3] != b"late" for one in readers.read)


async def test_a_broker_that_is_cut_off_answers_nobody_when_another_takes_over(postgres: PostgresServer) -> None:
    dsn = postgres.fresh_database()
    with tempfile.TemporaryDirectory(prefix="kohort-wire-") as directory, wire_to(Path(directory), dsn) as wire:
        lease = {"broker_lease_ms": "1000", "offsets_topic_num_partitions": "3"}
        with running_kohort("--postgres", dsn, "--node-id", "2", **lease):
            process = ServerProcess(
                kohort("broker", "--listen", "127.0.0.1:0", "--postgres", wire.dsn, "--set", "broker.lease.ms=1000")
            )
            try:
                address = process.wait_for(r"^ready (\S+)$", timeout=30.0)[1]
                until(10.0, "both are there", lambda: len(read_image(dsn).nodes) == 2)
                wire.hold()
                answered = 0.0
                while 1 in read_image(dsn).nodes:
                    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                        async with connected(address) as peer:
                            await peer.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
                            answered = time.monotonic()
                taken_over = time.monotonic()
                assert 0 < answered < taken_over
                async with connected(address) as peer:
                    peer.send(ApiVersionsRequest(), 0)
                    assert await peer.closed(), "it has no lease"
            finally:
                process.kill()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--postgres", "host=/nowhere"], "cannot use the database: cannot connect to PostgreSQL"),
        (["--postgres", "nonsense"], "--postgres takes a connection string of PostgreSQL"),
        (["--postgres", "host=/nowhere", "--memory"], "--postgres contradicts --data, --memory and --shared"),
    ],
)
def test_a_bad_database_is_told_in_a_sentence(arguments: list[str], said: str) -> None:
    process = ServerProcess(kohort("broker", "--listen", "127.0.0.1:0", *arguments))
    assert process.wait(60.0) == 2
    assert said in process.output()
    assert len(process.output().splitlines()) == 1


def test_a_second_broker_of_one_node_id_is_refused(postgres: PostgresServer) -> None:
    dsn = postgres.fresh_database()
    with running_kohort("--postgres", dsn, broker_lease_ms="1000"):
        process = ServerProcess(kohort("broker", "--listen", "127.0.0.1:0", "--postgres", dsn))
        assert process.wait(60.0) == 2
        assert "has a broker with node id 1 already" in process.output()
