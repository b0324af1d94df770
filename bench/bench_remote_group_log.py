"""An experiment: our coordinator with its log in a topic of Apache Kafka. One group, its commits, one failover.

    python bench/bench_remote_group_log.py [--commits N]

A `GroupShard` appends the records of each Effects to a compacted topic, as one transaction with a fixed transactional
ID, replays them, and then answers. A second coordinator takes the transactional ID over, which fences the first one,
reads the topic, and goes on with the member where the first one was. Decision 015 has the results.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from kohort.client import Admin, Consumer, NewTopic, Producer
from kohort.coordinator import Effects, GroupConfig, GroupShard, RequestContext, Timer
from kohort.errors import ErrorCode, KafkaError
from kohort.model import TopicPartition
from kohort.wire.codec import DecodeError, Message
from kohort.wire.group_log import decode_group_records, encode_records
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.interop.kafka import running_kafka

TOPIC, TRANSACTIONAL_ID, GROUP = "__kohort_offsets", "kohort-offsets-0", "orders"
_CONFIG = GroupConfig(initial_rebalance_delay_ms=0)
Append = Callable[[list[tuple[bytes, bytes | None]]], Awaitable[None]]


def now_ms() -> int:
    return int(time.time() * 1000)


class RemoteShard:
    """One shard whose log is a topic of another cluster."""

    def __init__(self, append: Append) -> None:
        ids = itertools.count(1)
        self.shard = GroupShard(_CONFIG, lambda: f"{time.monotonic_ns()}-{next(ids)}")
        self._append = append
        self._tokens = itertools.count()
        self._timers: dict[int, tuple[int, Timer]] = {}

    async def load(self, bootstrap: str) -> int:
        """Read all committed records of the topic. Return their number."""
        place = TopicPartition(TOPIC, 0)
        pairs: list[tuple[bytes, bytes | None]] = []
        async with Consumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([place])
            end = (await consumer.end_offsets([place]))[place]
            while await consumer.position(place) < end:
                for record in await consumer.poll(timeout=0.1):
                    assert record.key is not None
                    pairs.append((bytes(record.key), None if record.value is None else bytes(record.value)))
        self.shard.replay_all(decode_group_records(pairs, _unreadable))
        await self.apply(self.shard.loaded(now_ms()))
        return len(pairs)

    async def ask(self, request: Message, version: int) -> Message:
        """Handle a request that is answered at once."""
        token = next(self._tokens)
        out = self.shard.handle(request, RequestContext(token, version, "bench", "/127.0.0.1"), now_ms())
        await self.apply(out)
        replies = dict(out.replies)
        while token not in replies:  # a JoinGroup waits for a timer
            due = min((at, number) for number, (at, _) in self._timers.items())
            _, timer = self._timers.pop(due[1])
            await asyncio.sleep(max(0, due[0] - now_ms()) / 1000)
            out = self.shard.fire(timer, now_ms())
            await self.apply(out)
            replies |= out.replies
        return replies[token]

    async def apply(self, out: Effects) -> None:
        """Append, replay; the caller answers then."""
        if out.records:
            await self._append(list(encode_records(out.records)))
            self.shard.replay_all(out.records)
        for timer, at in out.timers.items():
            self._timers = {number: known for number, known in self._timers.items() if known[1] != timer}
            if at is not None:
                self._timers[next(self._tokens)] = at, timer


def _unreadable(error: DecodeError) -> None:
    raise error


def transactional(producer: Producer) -> Append:
    async def append(pairs: list[tuple[bytes, bytes | None]]) -> None:
        async with producer.transaction():
            for key, value in pairs:
                await producer.send(TOPIC, value, key=key, partition=0)

    return append


def plain(producer: Producer) -> Append:
    async def append(pairs: list[tuple[bytes, bytes | None]]) -> None:
        written = [await producer.send(TOPIC, value, key=key, partition=0) for key, value in pairs]
        await asyncio.gather(*written)

    return append


async def joined(coordinator: RemoteShard) -> tuple[str, int]:
    """Let a member join, and return its ID and its generation."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")]
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    first = await coordinator.ask(request, 5)
    assert isinstance(first, JoinGroupResponse)
    request.member_id = first.member_id
    join = await coordinator.ask(request, 5)
    assert isinstance(join, JoinGroupResponse)
    assert join.error_code == ErrorCode.NONE, join
    assignments = [SyncGroupRequestAssignment(member_id=join.member_id, assignment=b"all")]
    sync = await coordinator.ask(
        SyncGroupRequest(
            group_id=GROUP, generation_id=join.generation_id, member_id=join.member_id, assignments=assignments
        ),
        3,
    )
    assert isinstance(sync, SyncGroupResponse)
    assert sync.error_code == ErrorCode.NONE
    return join.member_id, join.generation_id


def commit_of(member_id: str, generation: int, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    return OffsetCommitRequest(
        group_id=GROUP, generation_id_or_member_epoch=generation, member_id=member_id, topics=topics
    )


async def commits(coordinator: RemoteShard, member_id: str, generation: int, first: int, count: int) -> list[float]:
    """Commit again and again, and return the milliseconds of each."""
    took = []
    for offset in range(first, first + count):
        began = time.perf_counter()
        answer = await coordinator.ask(commit_of(member_id, generation, offset), 7)
        took.append((time.perf_counter() - began) * 1000)
        assert isinstance(answer, OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    return took


def shown(name: str, took: list[float]) -> str:
    ordered = sorted(took)
    return f"{name}: median {statistics.median(took):.1f} ms, p99 {ordered[len(ordered) * 99 // 100]:.1f} ms"


async def run(bootstrap: str, count: int) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics([NewTopic(TOPIC, 1, configs={"cleanup.policy": "compact"})])
    first = Producer(bootstrap_servers=bootstrap, transactional_id=TRANSACTIONAL_ID, linger_ms=0)
    second = Producer(bootstrap_servers=bootstrap, transactional_id=TRANSACTIONAL_ID, linger_ms=0)
    async with second, Producer(bootstrap_servers=bootstrap, linger_ms=0) as unfenced:
        async with first:
            await first.init_transactions()
            old = RemoteShard(transactional(first))
            await old.load(bootstrap)
            member_id, generation = await joined(old)
            print(shown(f"{count} commits, a transaction each", await commits(old, member_id, generation, 1, count)))
            other = RemoteShard(plain(unfenced))
            other.shard = old.shard
            took = await commits(other, member_id, generation, count + 1, count)
            print(shown(f"{count} commits, idempotent, without fencing", took))

            began = time.perf_counter()
            await second.init_transactions()
            new = RemoteShard(transactional(second))
            fenced = time.perf_counter()
            records = await new.load(bootstrap)
            done = time.perf_counter()
            print(
                f"failover: fenced in {(fenced - began) * 1000:.0f} ms, {records} records read and replayed in"
                f" {(done - fenced) * 1000:.0f} ms"
            )
            await goes_on(new, member_id, generation, 2 * count)
            try:
                await old.ask(commit_of(member_id, generation, 9_999), 7)
            except KafkaError as problem:
                print(f"the old coordinator is fenced: {problem.code.name}")
            else:
                raise AssertionError("the old coordinator could acknowledge a commit")
            await goes_on(new, member_id, generation, 2 * count)


async def goes_on(coordinator: RemoteShard, member_id: str, generation: int, offset: int) -> None:
    """Check that the member is in the group as before, and that its last commit is there."""
    beat = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
    answer = await coordinator.ask(beat, 3)
    assert answer.error_code == ErrorCode.NONE, answer  # type: ignore[attr-defined]
    asked = OffsetFetchRequest(group_id=GROUP, topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0])])
    found = await coordinator.ask(asked, 5)
    assert isinstance(found, OffsetFetchResponse)
    topics = found.topics or found.groups[0].topics
    assert topics[0].partitions[0].committed_offset == offset, found
    await commits(coordinator, member_id, generation, offset, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=200, help="number of commits (default 200)")
    given = parser.parse_args()
    with running_kafka() as kafka:
        asyncio.run(run(kafka.bootstrap, given.commits))


if __name__ == "__main__":
    main()
