"""How long a group is without its coordinator when a broker of a cluster of three is killed.

    python bench/bench_failover.py [--times 10] [--offsets 100000]

From SIGKILL until the others lead its partitions, and until the first of them answers for a group whose partition has
that many offset records to load. A commit after it must find every offset that was acknowledged before.
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

from kohort import Admin, NewTopic, TopicPartition
from kohort.broker.cluster import BrokerProcesses, ClusterOptions
from kohort.broker.groups import group_partition
from kohort.errors import ErrorCode
from kohort.log.cluster import OFFSETS_TOPIC, ClusterImage, read_image
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.broker.peer import Peer

GROUP, TOPIC, PARTITIONS = "readers", "t", 1_000
LED_WITHIN_MS, ANSWERED_WITHIN_MS = 300, 1_000
"""The worst of all times is held to these."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10, help="how many brokers are killed, one after the other")
    parser.add_argument("--offsets", type=int, default=100_000, help="offset records of the group's partition")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as scratch:
        asyncio.run(measure(Path(scratch) / "data", given.times, given.offsets))
    return 0


async def measure(data: Path, times: int, offsets: int) -> None:
    options = ClusterOptions(["127.0.0.1:0"] * 3, data, restart=True)
    led, answered = [], []
    async with BrokerProcesses(options) as cluster:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
            wanted = {TopicPartition(TOPIC, number): number for number in range(PARTITIONS)}
            for _ in range(offsets // PARTITIONS):
                await admin.alter_group_offsets(GROUP, wanted)
        for _ in range(times):
            one, other = await fail_over(data)
            led.append(one)
            answered.append(other)
            await asyncio.to_thread(is_whole, data)
    for name, found, bar_ms in (
        ("the others lead", led, LED_WITHIN_MS),
        (f"{offsets:,} offsets loaded, answered", answered, ANSWERED_WITHIN_MS),
    ):
        told = f"{statistics.median(found) * 1e3:6.0f} ms ({min(found) * 1e3:.0f} to {max(found) * 1e3:.0f})"
        verdict = "reached" if max(found) * 1e3 < bar_ms else "missed"
        print(f"killed, until {name:32} {told}; to reach: {bar_ms:,} ms, {verdict}", flush=True)


async def fail_over(data: Path) -> tuple[float, float]:
    image = read_image(data)
    topic = image.named(OFFSETS_TOPIC)
    assert topic is not None
    partition = group_partition(GROUP, topic.partitions)
    killed = image.leaders[topic.topic_id][partition].node_id
    process_id = int((data / "brokers" / f"{killed}.lock").read_text().split()[0])
    peers = {number: await connect(node.host, node.port) for number, node in image.nodes.items() if number != killed}
    began = time.perf_counter()
    os.kill(process_id, signal.SIGKILL)
    image = await asyncio.to_thread(image_without, data, killed)
    led = time.perf_counter() - began
    peer = peers[image.leaders[topic.topic_id][partition].node_id]
    everything = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=list(range(PARTITIONS)))]
    while True:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=everything)])
        answer = (await peer.ask(request, 8, OffsetFetchResponse)).groups[0]
        if answer.error_code == ErrorCode.NONE:
            break
        await asyncio.sleep(0.001)
    answered = time.perf_counter() - began
    found = {one.partition_index: one.committed_offset for one in answer.topics[0].partitions}
    assert found == {number: number for number in range(PARTITIONS)}, "an acknowledged commit is gone"
    for one in peers.values():
        one.writer.close()
    return led, answered


def is_whole(data: Path) -> None:
    """Return when three brokers lead their shares."""
    while len((image := read_image(data)).nodes) < 3 or not image.settled:
        time.sleep(0.02)
    time.sleep(1.0)  # the one that came back has yet to say that it is ready


def image_without(data: Path, node_id: int) -> ClusterImage:
    """The image as soon as the others have noticed."""
    while node_id in (image := read_image(data)).nodes:
        time.sleep(0.001)
    return image


async def connect(host: str, port: int) -> Peer:
    return Peer(*await asyncio.open_connection(host, port))


if __name__ == "__main__":
    sys.exit(main())
