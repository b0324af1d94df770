"""What it costs to watch 1,000 groups with 10,000 members and 10,000 partitions.

    python bench/bench_watch.py [--minutes 60] [--quiet 20]

An hour of history has a commit of each partition every 5 s: 7.2 million commits. Then the share of a core that the
watcher takes while the groups commit nothing, and while they go on committing. A synthetic log stands in for
__consumer_offsets: it has the same records in 50 partitions, and the watcher follows it as it follows the real one.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from kohort import Admin, NewTopic
from kohort.client import Cluster
from kohort.model import Millis, TopicPartition
from kohort.watch import EndsSampled, Watching
from kohort.wire.batches import encode_pairs
from kohort.wire.group_log import encode_key, encode_value
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.interop.kohort import running_kohort

GROUPS, SHARDS, TOPICS, PARTITIONS = 1_000, 50, 10, 1_000
EVERY_MS = 5_000
"""Interval of the commits."""
LOG = "synthetic-log"
LOADED_WITHIN_S, CPU_BELOW, MEMORY_BELOW_MIB = 10.0, 0.05, 1_000

Pairs = list[tuple[bytes, bytes | None]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=60, help="age of the history")
    parser.add_argument("--quiet", type=int, default=20, help="seconds for which CPU time is taken")
    given = parser.parse_args()
    with running_kohort() as broker:
        return asyncio.run(measure(broker.bootstrap, given.minutes, given.quiet))


async def measure(servers: str, minutes: int, quiet: int) -> int:
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(LOG, SHARDS)])
        await admin.create_topics([NewTopic(f"topic-{number}", PARTITIONS) for number in range(TOPICS)])
    shards = [shard(number) for number in range(SHARDS)]
    async with Cluster.of(servers) as cluster:
        await cluster.refresh([LOG])
        start = now() - minutes * 60_000
        await write(cluster, [generations for generations, _ in shards], start)
        rounds = minutes * 60_000 // EVERY_MS
        for number in range(rounds):
            await write(cluster, [commits for _, commits in shards], start + number * EVERY_MS)
        options = {"bootstrap_servers": servers}
        began, used = time.perf_counter(), time.process_time()
        async with Watching(options, history_ms=minutes * 60_000 + 60_000, log_topic=LOG) as watching:
            await watching.caught_up()
            took, cpu = time.perf_counter() - began, time.process_time() - used
            live = watching.live
            assert len(live.groups) == GROUPS and len(live.ends) == TOPICS * PARTITIONS
            assert live.counts.records == GROUPS + rounds * TOPICS * PARTITIONS
            assert all(len(group.members) == len(group.commits) == TOPICS for group in live.groups.values())
            idle = await share(watching, quiet)
            commits = [some for _, some in shards]
            writer = asyncio.create_task(keep_committing(cluster, commits))
            busy = await share(watching, quiet) - writing_share(commits)
            writer.cancel()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{GROUPS} groups, {GROUPS * TOPICS} members, {TOPICS * PARTITIONS} partitions")
    figures = [
        (f"history of {minutes} minutes, {rounds * TOPICS * PARTITIONS:,} commits", took, LOADED_WITHIN_S, "s"),
        ("CPU while nothing is committed", 100 * idle, 100 * CPU_BELOW, "% of a core"),
        ("CPU while each group commits every 5 s", 100 * busy, 100 * CPU_BELOW, "% of a core"),
        ("largest memory, with this benchmark's own", memory, MEMORY_BELOW_MIB, "MiB"),
    ]
    for name, figure, limit, unit in figures:
        verdict = "ok" if figure <= limit else "ABOVE THE LIMIT"
        print(f"{name:62} {figure:8.1f} {unit}, limit {limit:g}: {verdict}")
    print(f"{'CPU time of the load':62} {cpu:8.1f} s")
    return int(any(figure > limit for _, figure, limit, _ in figures))


def shard(number: int) -> tuple[Pairs, Pairs]:
    """The generations and the commits of the groups in one partition of the log."""
    generations: Pairs = []
    commits: Pairs = []
    for group in range(number, GROUPS, SHARDS):
        name = f"group-{group}"
        owned = [TopicPartition(f"topic-{topic}", group) for topic in range(TOPICS)]
        subscription = encode_subscription(Subscription([partition.topic for partition in owned]))
        members = [
            MemberMetadata(
                member_id=f"{name}-member-{topic}-8f3c0f7e-2f5b-4d8e-9c3c-6ed5f8a9d0c1",
                client_id=f"client-{topic}",
                client_host="/127.0.0.1",
                session_timeout=45_000,
                subscription=subscription,
                assignment=encode_assignment(Assignment([partition])),
            )
            for topic, partition in enumerate(owned)
        ]
        value = GroupMetadataValue(
            protocol_type="consumer", generation=1, protocol="range", leader=members[0].member_id, members=members
        )
        generations.append((encode_key(GroupMetadataKey(group=name)), encode_value(value)))
        for partition in owned:
            key = OffsetCommitKey(group=name, topic=partition.topic, partition=partition.partition)
            commits.append((encode_key(key), encode_value(OffsetCommitValue(offset=0, commit_timestamp=now()))))
    return generations, commits


async def write(cluster: Cluster, shards: list[Pairs], at: Millis) -> None:
    data = [
        PartitionProduceData(index=number, records=bytes(encode_pairs(pairs, at)))
        for number, pairs in enumerate(shards)
    ]
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=LOG, partition_data=data)])
    connection = await cluster.leader(TopicPartition(LOG, 0))
    if connection.version_of(ProduceRequest) >= 13:
        topic_id = cluster.metadata.topic_id(LOG)
        assert topic_id is not None
        request.topic_data[0].topic_id = topic_id
        request.topic_data[0].name = ""
    response = await connection.request(request, ProduceResponse)
    assert all(answer.error_code == 0 for answer in response.responses[0].partition_responses), response


async def keep_committing(cluster: Cluster, shards: list[Pairs]) -> None:
    """Commit for a tenth of the shards every half second."""
    while True:
        for some in range(SHARDS // 5):
            began = time.perf_counter()
            part: list[Pairs] = [pairs if number % (SHARDS // 5) == some else [] for number, pairs in enumerate(shards)]
            await write_some(cluster, part)
            await asyncio.sleep(max(0.0, EVERY_MS / 1000 / (SHARDS // 5) - (time.perf_counter() - began)))


async def write_some(cluster: Cluster, shards: list[Pairs]) -> None:
    at = now()
    data = [
        PartitionProduceData(index=number, records=bytes(encode_pairs(pairs, at)))
        for number, pairs in enumerate(shards)
        if pairs
    ]
    topic_id = cluster.metadata.topic_id(LOG)
    assert topic_id is not None
    topic = TopicProduceData(topic_id=topic_id, partition_data=data)
    connection = await cluster.leader(TopicPartition(LOG, 0))
    await connection.request(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]), ProduceResponse)


def writing_share(shards: list[Pairs]) -> float:
    """The share of a core that writing the commits takes, which is not the watcher's."""
    used, times = time.process_time(), 20
    for _ in range(times):
        for pairs in shards:
            encode_pairs(pairs, 0)
    return (time.process_time() - used) / times / (EVERY_MS / 1000)


async def share(watching: Watching, seconds: float) -> float:
    """The share of a core that the watcher takes over some seconds of rounds."""
    rounds = asyncio.Event()
    stop = watching.live.subscribe(lambda event, _now: rounds.set() if isinstance(event, EndsSampled) else None)
    await rounds.wait()
    began, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        rounds.clear()
        await rounds.wait()
    stop()
    return (time.process_time() - used) / (time.perf_counter() - began)


def now() -> Millis:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    sys.exit(main())
