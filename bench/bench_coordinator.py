"""What the group coordinator itself costs, without sockets and without a disk: microseconds of one core.

    python bench/bench_coordinator.py

Commits are shown as the core's part and as a whole with decoding, encoding and the record batch, since the core's is
the smaller one. A rebalance is all joins and syncs of a group that knows its members already.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from itertools import count

from kohort.coordinator import Effects, GroupConfig, GroupShard, InitialRebalanceDelay, RequestContext, Timer
from kohort.wire.batches import pack_batch
from kohort.wire.codec import Buffer, decoder, encode, encoder
from kohort.wire.group_log import pack_records
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

METADATA = encode_subscription(Subscription(["orders"]))
ASSIGNMENT = encode_assignment(Assignment())
CONTEXT = RequestContext("token", 9, "client", "/127.0.0.1")


class Bench:
    """A shard whose log takes everything at once."""

    def __init__(self) -> None:
        ids = count()
        self.shard = GroupShard(GroupConfig(), lambda: f"{next(ids):08}")

    def apply(self, effects: Effects) -> Effects:
        for record in effects.records:
            self.shard.replay(record)
        return effects

    def fire(self, timer: Timer, now: int) -> Effects:
        return self.apply(self.shard.fire(timer, now))

    def join(self, group_id: str, member_id: str, token: object, now: int, version: int) -> Effects:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=METADATA)],
        )
        return self.apply(self.shard.handle(request, RequestContext(token, version, "client", "/h"), now))

    def group(self, group_id: str, size: int) -> tuple[list[str], int]:
        """A Stable group of that size: its members and its generation."""
        for number in range(size):
            self.join(group_id, "", number, 0, 2)
        effects = self.fire(InitialRebalanceDelay(group_id), 3_000)
        while not effects.replies:
            effects = self.fire(InitialRebalanceDelay(group_id), 6_000)
        joined = [reply for reply in effects.replies.values() if isinstance(reply, JoinGroupResponse)]
        members = [reply.member_id for reply in joined]
        self.sync(group_id, members, 1, 6_000)
        return members, 1

    def sync(self, group_id: str, members: list[str], generation: int, now: int) -> int:
        """All SyncGroups, the leader's in the middle; returns how many were answered."""
        answered = 0
        leader = self.shard.groups[group_id].leader_id
        order = [member for member in members if member != leader]
        order.insert(len(order) // 2, leader or "")
        for number, member in enumerate(order):
            request = SyncGroupRequest(
                group_id=group_id,
                generation_id=generation,
                member_id=member,
                protocol_type="consumer",
                protocol_name="range",
            )
            if member == leader:
                request.assignments = [
                    SyncGroupRequestAssignment(member_id=one, assignment=ASSIGNMENT) for one in members
                ]
            effects = self.apply(self.shard.handle(request, RequestContext(number, 5, "client", "/h"), now))
            answered += len(effects.replies)
        return answered


def microseconds(times: int, once: Callable[[], object]) -> float:
    """The best of five runs, per call."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(times):
            once()
        best = min(best, time.perf_counter() - start)
    return best / times * 1e6


def heartbeats() -> None:
    bench = Bench()
    members, generation = bench.group("g", 100)
    request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=members[50])
    direct = microseconds(100_000, lambda: bench.shard.heartbeat(request, 7_000))
    handled = microseconds(50_000, lambda: bench.shard.handle(request, CONTEXT, 7_000))
    print(f"heartbeat                       {direct:7.2f} us ({1e6 / direct:,.0f}/s), through handle {handled:.2f} us")


def commits() -> None:
    bench = Bench()
    (member,), generation = bench.group("g", 1)
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[
            OffsetCommitRequestTopic(
                name="orders",
                partitions=[OffsetCommitRequestPartition(partition_index=p, committed_offset=p) for p in range(10)],
            )
        ],
    )
    core = microseconds(10_000, lambda: bench.apply(bench.shard.handle(request, CONTEXT, 7_000)))

    frame = encode(request, 9)
    read = decoder(OffsetCommitRequest, 9)
    write = encoder(OffsetCommitResponse, 9)

    def whole() -> int:
        asked, _ = read(frame, 0)
        effects = bench.apply(bench.shard.handle(asked, CONTEXT, 7_000))
        batch = pack_batch(b"".join(pack_records(effects.records, 0)), len(effects.records), 7_000)
        parts: list[Buffer] = []
        answer = effects.replies[CONTEXT.token]
        assert isinstance(answer, OffsetCommitResponse)
        write(answer, parts)
        return len(batch) + len(b"".join(parts))

    all_of_it = microseconds(5_000, whole)
    print(
        f"commit of 10 partitions         {core:7.2f} us ({1e6 / core:,.0f}/s), with codec {all_of_it:.2f} us", end=""
    )
    print(f" ({1e6 / all_of_it:,.0f}/s)")


def rebalances(size: int) -> None:
    bench = Bench()
    members, generation = bench.group("g", size)
    best_join = best_sync = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        answered = 0
        for number, member in enumerate(members):
            answered += len(bench.join("g", member, number, 10_000, 9).replies)
        joined = time.perf_counter()
        generation += 1
        answered_syncs = bench.sync("g", members, generation, 10_000)
        synced = time.perf_counter()
        assert answered == answered_syncs == size
        best_join, best_sync = min(best_join, joined - start), min(best_sync, synced - joined)
    total = best_join + best_sync
    parts = f"joins {best_join * 1e3:.1f}, syncs {best_sync * 1e3:.1f}"
    print(f"rebalance of {size:5} members     {total * 1e3:7.1f} ms ({parts})")


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    heartbeats()
    commits()
    rebalances(1_000)
    rebalances(5_000)
    return 0


if __name__ == "__main__":
    sys.exit(main())
