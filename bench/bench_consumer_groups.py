"""What consumer groups (KIP-848) cost the coordinator itself, without sockets and without a disk: CPU time of one core.

    python bench/bench_consumer_groups.py

A heartbeat is shown as the core's part and as a whole with decoding and encoding. The larger figures count all that a
shard does for them: requests, records encoded for the log, their replay, answers encoded.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from itertools import count
from uuid import UUID

from kohort.assignor.server import TopicShape
from kohort.coordinator import Effects, GroupConfig, GroupSettings, GroupShard, MetadataImage, RequestContext, Topic
from kohort.coordinator.consumer import NOTHING, ConsumerGroupState, ConsumerMember, Partitions, reconcile
from kohort.wire.codec import Buffer, decoder, encode, encoder
from kohort.wire.group_log import pack_records
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

VERSION = 1
INTERVAL = 5_000
"""Milliseconds between two heartbeats of a member, as Kafka sets it."""

read = decoder(ConsumerGroupHeartbeatRequest, VERSION)
write = encoder(ConsumerGroupHeartbeatResponse, VERSION)


class Bench:
    """A shard whose log takes everything at once."""

    def __init__(self, topics: int, partitions: int) -> None:
        ids = count()
        self.settings = GroupSettings()
        self.shard = GroupShard(GroupConfig(), lambda: f"{next(ids):08}", settings=lambda group_id: self.settings)
        names = [f"topic-{number}" for number in range(topics)]
        self.names = names
        shape = TopicShape(partitions)
        self.image = MetadataImage([Topic(name, UUID(int=n + 1), shape) for n, name in enumerate(names)])
        self.shard.metadata_changed(self.image, 1_000_000)
        self.shard.loaded(1_000_000)
        self.now = 1_000_000

    def apply(self, effects: Effects) -> Effects:
        pack_records(effects.records, 0)
        self.shard.replay_all(effects.records)
        return effects

    def send(self, member: Member, frame: bytes) -> None:
        """One heartbeat with everything that a shard does for it."""
        request, _ = read(frame, 0)
        context = RequestContext(member, VERSION, "bench", "/127.0.0.1")
        response = self.shard.quiet_heartbeat(request, self.now)
        if response is None:
            reply = self.apply(self.shard.handle(request, context, self.now)).replies[member]
            assert isinstance(reply, ConsumerGroupHeartbeatResponse)
            response = reply
        assert isinstance(response, ConsumerGroupHeartbeatResponse), "nothing is held without a token"
        parts: list[Buffer] = []
        write(response, parts)
        member.hear(response)

    def state(self) -> ConsumerGroupState:
        return self.shard.consumer_groups["g"].state


class Member:
    """A client that acknowledges what it is told at its next heartbeat."""

    def __init__(self, name: str, topics: list[str]) -> None:
        self.member_id = name
        self.topics = topics
        self.epoch = 0
        self.news: list[TopicPartitions] | None = []

    def frame(self, epoch: int | None = None) -> bytes:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=self.member_id, member_epoch=self.epoch)
        request.topic_partitions, self.news = self.news, None
        if epoch is not None:
            request.member_epoch, request.topic_partitions = epoch, None
        elif not self.epoch:
            request.rebalance_timeout_ms = 300_000
            request.subscribed_topic_names = self.topics
        return encode(request, VERSION)

    def hear(self, response: ConsumerGroupHeartbeatResponse) -> None:
        assert response.error_code == 0, response
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.news = response.assignment.topic_partitions


def microseconds(times: int, once: Callable[[], object]) -> float:
    """The best of five runs, per call, of CPU time."""
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(times):
            once()
        best = min(best, time.process_time() - start)
    return best / times * 1e6


def settle(bench: Bench, members: list[Member]) -> tuple[float, int]:
    """CPU seconds of heartbeats until the group is Stable, and the milliseconds that pass by then."""
    cpu, start = 0.0, bench.now
    while bench.state() is not ConsumerGroupState.STABLE:
        bench.now += INTERVAL
        cpu += timed(bench, [(member, member.frame()) for member in members])
    return cpu, bench.now - start


def timed(bench: Bench, frames: list[tuple[Member, bytes]]) -> float:
    start = time.process_time()
    for member, frame in frames:
        bench.send(member, frame)
    return time.process_time() - start


def heartbeats() -> None:
    bench = Bench(1, 100)
    members = [Member(f"member-{number:036}", bench.names) for number in range(100)]
    timed(bench, [(member, member.frame()) for member in members])
    settle(bench, members)
    member = members[50]
    timed(bench, [(member, member.frame())])
    frame = member.frame()
    request, _ = read(frame, 0)
    core = microseconds(100_000, lambda: bench.shard.quiet_heartbeat(request, bench.now))
    whole = microseconds(50_000, lambda: bench.send(member, frame))
    print(f"heartbeat                       {core:7.2f} us ({1e6 / core:,.0f}/s), with codec {whole:.2f} us")


def joining(size: int) -> None:
    best, rounds, after = float("inf"), 0.0, 0
    for _ in range(3):
        bench = Bench(1, size)
        members = [Member(f"member-{number:036}", bench.names) for number in range(size)]
        joins = timed(bench, [(member, member.frame()) for member in members])
        rest, after = settle(bench, members)
        if joins + rest < best:
            best, rounds = joins + rest, rest
    print(
        f"{size:6} members join            {best * 1e3:7.1f} ms until Stable, {rounds * 1e3:.1f} of it heartbeats",
        end="",
    )
    print(f" over {after / 1e3:.0f} s of {INTERVAL / 1e3:.0f} s intervals")


def settled(size: int, topics: int, partitions: int) -> tuple[Bench, list[Member]]:
    """A Stable group of that size: its topics are made when all members are there."""
    bench = Bench(topics, partitions)
    bench.apply(bench.shard.metadata_changed(MetadataImage(), bench.now))
    members = [Member(f"member-{number:036}", bench.names) for number in range(size)]
    timed(bench, [(member, member.frame()) for member in members])
    bench.apply(bench.shard.metadata_changed(bench.image, bench.now))
    settle(bench, members)
    return bench, members


def one_of_many(size: int, topics: int, partitions: int) -> None:
    """A member joins, and leaves, a large group whose other members have not stirred."""
    bench, members = settled(size, topics, partitions)
    best_join = best_leave = best_next = float("inf")
    for number in range(20):
        bench.now += INTERVAL
        late = Member(f"late-{number:036}", bench.names)
        best_join = min(best_join, timed(bench, [(late, late.frame())]))
        best_leave = min(best_leave, timed(bench, [(late, late.frame(-1))]))
        bench.now += INTERVAL
        best_next = min(best_next, timed(bench, [(members[number], members[number].frame())]))
    print(f"one of {size:,} members, {topics * partitions:,} partitions: joins in {best_join * 1e3:.3f} ms,", end="")
    print(f" leaves in {best_leave * 1e3:.3f} ms, next heartbeat with a new target {best_next * 1e3:.3f} ms")


def memory(size: int, partitions: int) -> None:
    """What a member of a Stable group takes, with all that the group and its plan know of it."""
    settled(10, 1, 100)  # codecs are compiled on first use
    gc.collect()
    tracemalloc.start()
    bench, members = settled(size, 1, size * partitions)
    for member in members:
        member.topics, member.news = [], None
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    own = bench.shard
    del bench, members
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert own.consumer_groups
    print(f"memory                          {kept / size:7.0f} bytes a member with {partitions} partitions", end="")
    print(f" ({taken / size:.0f} with the benchmark's own)")


def reconciling(partitions: int) -> None:
    topic_id = UUID(int=1)
    half, all_of_them = (Partitions({topic_id: frozenset(range(n))}) for n in (partitions // 2, partitions))
    settled = ConsumerMember("a", epoch=2, assigned=all_of_them)

    def told() -> ConsumerMember:
        return reconcile(settled, half, target_epoch=3, owned=None, taken=lambda wanted: NOTHING)

    revoking = told()

    def reported() -> ConsumerMember:
        return reconcile(revoking, half, target_epoch=3, owned=half, taken=lambda wanted: NOTHING)

    print(f"reconcile, {partitions:6} partitions    {microseconds(2_000, told):7.2f} us to tell,", end="")
    print(f" {microseconds(2_000, reported):.2f} us to take the report")


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    heartbeats()
    joining(1_000)
    one_of_many(10_000, 1, 100_000)
    memory(1_000, 1)
    memory(1_000, 10)
    reconciling(10)
    reconciling(1_000)
    return 0


if __name__ == "__main__":
    sys.exit(main())
