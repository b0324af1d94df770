"""How long a group's commit takes while a topic of 900 partitions gets its first records, beside a quiet broker.

    python bench/bench_new_files.py [--before SRC] [--topics N] [--data DIRECTORY]

One connection commits offsets, one after the other; another writes one record to each partition of a new topic, again
and again with the next topic. --before measures the source tree SRC first, such as src of an older checkout.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.peer import Peer, connected
from tests.interop.kohort import kohort
from tests.interop.process import ServerProcess

PARTITIONS = 900
PER_REQUEST = 100
"""A producer's first records are spread over requests: one for all would keep the event loop for as long."""
QUIET_S = 3.0
SETTINGS = ["--set", "group.heartbeat.hold.ms=0", "--set", "num.partitions=1"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="SRC", help="a source tree to measure first")
    parser.add_argument("--topics", type=int, default=5, metavar="N", help="topics that get their first records")
    parser.add_argument("--data", type=Path, metavar="DIRECTORY", help="where the data directories are made")
    given = parser.parse_args()
    sources = {"before": given.before, "now": Path(__file__).parents[1] / "src"}
    for name, source in sources.items():
        if source is None:
            continue
        with tempfile.TemporaryDirectory(prefix="kohort-bench-", dir=given.data) as directory:
            command = kohort("broker", "--listen", "127.0.0.1:0", "--data", directory, *SETTINGS)
            process = ServerProcess(command, env={"PYTHONPATH": str(source.absolute())})
            try:
                ready = process.wait_for(r"^ready (\S+:\d+)$", timeout=20.0)
                asyncio.run(measure(name, ready[1], given.topics))
                process.stop()
            finally:
                process.kill()
    return 0


async def measure(name: str, bootstrap: str, topics: int) -> None:
    async with connected(bootstrap) as group, connected(bootstrap) as producer:
        await create(producer, "read", 1)
        quiet = await commits_while(group, asyncio.sleep(QUIET_S))
        beside: list[float] = []
        taken: list[float] = []
        for number in range(topics):
            topic = f"wide-{number}"
            await create(producer, topic, PARTITIONS)
            started = time.perf_counter()
            beside += await commits_while(group, write(producer, topic))
            taken.append(time.perf_counter() - started)
    print(f"{name}: {topics} topics of {PARTITIONS} partitions, each written in {statistics.median(taken):.2f} s")
    for what, share in (("p50", 0.5), ("p99", 0.99), ("longest", 1.0)):
        alone, with_files = at(quiet, share), at(beside, share)
        ratio = with_files / alone
        print(f"  a commit's {what:7} {alone:8.1f} ms alone, {with_files:8.1f} ms beside new files: {ratio:6.1f} times")
    print(f"  commits: {len(quiet)} alone, {len(beside)} beside new files", flush=True)


async def commits_while(peer: Peer, other: Coroutine[Any, Any, None]) -> list[float]:
    """Milliseconds of each commit that was made while `other` ran."""
    task = asyncio.create_task(other)
    took = []
    offset = 0
    while not task.done():
        started = time.perf_counter()
        offset += 1
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequestTopic(name="read", partitions=[partition])
        request = OffsetCommitRequest(group_id="g", topics=[topic])
        answer = await peer.ask(request, 5, OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == 0
        took.append((time.perf_counter() - started) * 1e3)
    await task
    return took


async def create(peer: Peer, name: str, partitions: int) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    answer = await peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5, CreateTopicsResponse)
    assert answer.topics[0].error_code == 0


async def write(peer: Peer, topic: str) -> None:
    """One record to each partition, all requests in flight at once."""
    value = bytes(encode_batch([Record(0, 0, None, bytes(100))]))
    for first in range(0, PARTITIONS, PER_REQUEST):
        numbers = range(first, min(first + PER_REQUEST, PARTITIONS))
        data = [PartitionProduceData(index=number, records=value) for number in numbers]
        topics = [TopicProduceData(name=topic, partition_data=data)]
        peer.send(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics), 9)
    for _ in range(0, PARTITIONS, PER_REQUEST):
        answer = await peer.answer(ProduceResponse)
        assert all(one.error_code == 0 for one in answer.responses[0].partition_responses)


def at(times: list[float], share: float) -> float:
    """The time below which that share of them lies."""
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


if __name__ == "__main__":
    sys.exit(main())
