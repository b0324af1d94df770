"""A cluster over PostgreSQL: brokers die, are suspended, lose the database; groups and records stay as they were."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.log.cluster import Leader, PartitionId
from kohort.log.partition import SegmentedLog
from kohort.log.postgres import ClusterDatabase, PostgresStore
from kohort.log.postgres.cluster_state import read_image
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.peer import connected
from tests.cluster.conftest import StartCluster
from tests.cluster.postgres import PostgresServer, running_postgres
from tests.cluster.test_failover import Readers, produce, topic_of
from tests.cluster.wire import wire_to
from tests.interop.kohort import kohort, running_kohort
from tests.interop.process import ServerProcess, until

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize("abruptly", [pytest.param(False, marks=pytest.mark.long("a cluster and a database")), True])
async def test_a_database_that_restarts_costs_nothing_but_time(
    start_over_postgres: StartCluster, *, abruptly: bool
) -> None:
    with running_postgres() as server, start_over_postgres(dsn=server.dsn()) as cluster:
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
        values = [row[3] for row in readers.read]
        assert sorted(map(int, filter(None, values))) == list(range(420)), "each record once"
        assert len(cluster.image.nodes) == 3


async def test_a_zombie_acknowledges_nothing_and_ends(start_over_postgres: StartCluster) -> None:
    with start_over_postgres("--set", "broker.lease.ms=1000", "--restart") as cluster:
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
        assert all(row[3] != b"late" for row in readers.read)


async def test_a_disconnected_broker_stops_answering_before_another_takes_over(postgres: PostgresServer) -> None:
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
def test_an_unusable_database_is_reported_in_a_sentence(arguments: list[str], said: str) -> None:
    process = ServerProcess(kohort("broker", "--listen", "127.0.0.1:0", *arguments))
    assert process.wait(60.0) == 2
    assert said in process.output()
    assert len(process.output().splitlines()) == 1


async def test_a_partition_that_leaves_and_comes_back_while_it_is_loaded_is_loaded_again(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = postgres.fresh_database()
    broker = Broker(BrokerOptions(port=0, postgres=dsn))
    await broker.start()
    other = ClusterDatabase(dsn, 2)
    began, go = threading.Event(), threading.Event()
    load = PostgresStore.load

    def slow_load(store: PostgresStore, partition: PartitionId) -> SegmentedLog:
        log = load(store, partition)
        began.set()
        assert go.wait(20)
        return log

    def lead(node_id: int) -> int:
        """Let that broker lead the partition; return the version of the image."""
        return other.change(lambda image: image.led({one: Leader(node_id, image.leader(one).epoch + 1)})).version

    async def followed(version: int) -> None:
        assert isinstance(broker.store, PostgresStore)
        async with asyncio.timeout(20):
            while broker.store.image.version < version:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    try:
        one = PartitionId(broker.topics.create("t", 1).topic_id, 0)
        monkeypatch.setattr(PostgresStore, "load", slow_load)
        await followed(lead(2))
        lead(1)
        assert await asyncio.to_thread(began.wait, 20)
        await followed(lead(2))
        await followed(lead(1))
        go.set()
        async with asyncio.timeout(20):
            while broker.partition("t", 0) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        go.set()
        await broker.stop()
        other.close()
