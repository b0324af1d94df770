"""Megabytes that a broker takes and gives, per CPU second of its process: `python bench/run.py transfer`.

    python bench/bench_transfer.py [--peer] [--mb 600]

Batches of about 900 KB to and from 4 partitions, acks=all, one connection and one request in flight for each. Ours is
measured on a disk and on a tmpfs, where a sync costs nothing; with --peer Apache Kafka, which does not sync, in the
same run. The server has one core and the load another; Apache Kafka every core.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.bench_broker import Broker, Connection, Figure, load_core, pinned, server_core, show
from kohort.wire.batches import Record, batches, encode_batch
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.interop.kafka import PRODUCTION, Unavailable, jars, running_kafka
from tests.interop.kohort import running_kohort

TOPIC = "transfer"
PARTITIONS = 4
BATCH_BYTES = 900_000
FETCH_BYTES = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure megabytes produced and fetched.")
    parser.add_argument("--peer", action="store_true", help="measure Apache Kafka too and print ratios")
    parser.add_argument("--mb", type=int, default=600, help="megabytes produced, and fetched twice (default 600)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kohort-bench-", dir="/var/tmp") as disk:
        ours = measure(lambda: running_kohort("--data", f"{disk}/data"), server_core(), options.mb, warm=0)
    peer: list[Figure] = []
    if options.peer:
        try:
            jars()
        except Unavailable as missing:
            print(f"without Apache Kafka: {missing}")
        else:
            every_core = os.sched_getaffinity(0)
            peer = measure(lambda: running_kafka(jvm=PRODUCTION), every_core, options.mb, warm=options.mb)
    show(ours, peer)
    memory = Path("/dev/shm")
    if not memory.is_dir() or shutil.disk_usage(memory).free <= 2 * options.mb * 10**6:
        print(f"not on a tmpfs: /dev/shm has no {2 * options.mb} MB free")
    else:
        with tempfile.TemporaryDirectory(prefix="kohort-bench-", dir=memory) as unsynced:
            print("on a tmpfs, where a sync costs nothing:")
            show(measure(lambda: running_kohort("--data", f"{unsynced}/data"), server_core(), options.mb, warm=0), [])


def measure(
    start: Callable[[], AbstractContextManager[Broker]], cpus: set[int], megabytes: int, warm: int
) -> list[Figure]:
    """`warm` megabytes go first, for a JVM that compiles what is hot."""
    with ExitStack() as running:
        with pinned(cpus):
            broker = running.enter_context(start())
        batch = large_batch()
        figures: list[Figure] = []
        for topic, size in ((f"{TOPIC}-warm", warm), (TOPIC, megabytes)):
            if size:
                create(broker, topic)
                times = size * 10**6 // PARTITIONS // len(batch)
                connect = partial(Connection, broker.bootstrap)
                figures = [
                    drive(broker, "produced", partial(produce, connect, topic, batch, times)),
                    drive(broker, "fetched", partial(fetch, connect, topic, times * len(batch))),
                    drive(broker, "fetched again", partial(fetch, connect, topic, times * len(batch))),
                ]
    return figures


def large_batch() -> bytes:
    """A batch of records that do not compress."""
    return bytes(encode_batch(Record(n, 0, None, os.urandom(1000)) for n in range(BATCH_BYTES // 1010)))


def create(broker: Broker, topic: str) -> None:
    with Connection(broker.bootstrap) as connection:
        new = CreatableTopic(name=topic, num_partitions=PARTITIONS, replication_factor=1)
        made = connection.ask(CreateTopicsRequest(topics=[new], timeout_ms=30_000), 4, CreateTopicsResponse)
        assert made.topics[0].error_code == 0, made
    time.sleep(1)  # Apache Kafka's partitions have their leaders a moment later


def drive(broker: Broker, name: str, work: Callable[[int], int]) -> Figure:
    """One thread for each partition; `work` returns the bytes that it moved."""
    moved: list[int] = []
    threads = [threading.Thread(target=lambda p=p: moved.append(work(p))) for p in range(PARTITIONS)]
    with pinned(load_core()):
        before, began = broker.process.cpu_seconds(), time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        used, took = broker.process.cpu_seconds() - before, time.perf_counter() - began
    assert len(moved) == PARTITIONS, f"a connection failed: {name}"
    megabytes = sum(moved) / 1e6
    return Figure(name, megabytes / used, "MB per CPU second", f"{megabytes / took:,.0f} MB/s")


def produce(connect: Callable[[], Connection], topic: str, batch: bytes, times: int, partition: int) -> int:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    with connect() as connection:
        for _ in range(times):
            answer = connection.ask(request, 7, ProduceResponse)
            assert answer.responses[0].partition_responses[0].error_code == 0, answer
    return times * len(batch)


def fetch(connect: Callable[[], Connection], topic: str, whole: int, partition: int) -> int:
    """Read a partition of `whole` bytes from its beginning."""
    offset = size = 0
    with connect() as connection:
        while size < whole:
            wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            topics = [FetchTopic(topic=topic, partitions=[wanted])]
            answer = connection.ask(FetchRequest(min_bytes=1, max_bytes=FETCH_BYTES, topics=topics), 11, FetchResponse)
            found = answer.responses[0].partitions[0]
            assert found.error_code == 0 and found.records, f"{size} of {whole} bytes, then {answer}"
            assert isinstance(found.records, bytes | bytearray | memoryview)
            size += len(found.records)
            offset = max(header.next_offset for _, header in batches(found.records))
    return size


if __name__ == "__main__":
    main()
