"""The shell of one shard: what it writes, when members get news, and what requests get while it loads again."""

import errno
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from kohort.broker.groups import loading
from kohort.broker.groups.shard import Shard
from kohort.coordinator import RequestContext
from kohort.errors import ErrorCode
from kohort.log import PartitionLog
from kohort.wire.batches import batches
from kohort.wire.codec import Buffer, Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from tests.broker.groups.test_leading_again import HOLD_S, Full, Waiter, classic_member, committing, lead_again
from tests.broker.groups.test_loading import log_of
from tests.broker.peer import Peer, connected
from tests.broker.virtual import PORT, VirtualBroker, eventually, in_virtual_time

ONE_SHARD = {"offsets.topic.num.partitions": "1"}


def ask(shard: Shard, request: Message, version: int) -> Waiter:
    waiter = Waiter(request, version)
    shard.handle(request, waiter, RequestContext(waiter, version, "client", "/host"))
    return waiter


def code_of(waiter: Waiter) -> ErrorCode:
    match waiter.answer:
        case OffsetCommitResponse(topics=[topic]):
            return ErrorCode(topic.partitions[0].error_code)
        case HeartbeatResponse(error_code=code) | ConsumerGroupHeartbeatResponse(error_code=code):
            return ErrorCode(code)
    raise AssertionError(f"no such answer: {waiter.answer}")


def test_a_shard_that_never_led_sends_requests_to_the_coordinator() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        shard = Shard(world.broker, 0)
        assert not shard.leads
        assert code_of(ask(shard, committing(1), 5)) == ErrorCode.NOT_COORDINATOR

    in_virtual_time(steps)


# Appends


def test_many_records_of_one_turn_are_several_batches() -> None:
    # A batch is read and decompressed as a whole, and Kafka's tools read none of more than max.message.bytes.
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        rows = [OffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in range(3_000)]
        topics = [OffsetCommitRequestTopic(name="t", partitions=rows)]
        shard = world.broker.groups.shard("g0")
        waiters = [ask(shard, OffsetCommitRequest(group_id=f"g{n}", topics=topics), 5) for n in range(3)]
        await eventually(lambda: all(waiter.answer is not None for waiter in waiters))
        log = world.broker.partition("__consumer_offsets", shard.partition)
        assert log is not None
        found = log.read(0, 1 << 30)
        assert [header.last_offset_delta + 1 for buffer in found for _, header in batches(buffer)] == [6_000, 3_000]

    in_virtual_time(steps, ONE_SHARD)


# Heartbeats


async def join(peer: Peer, group: str) -> ConsumerGroupHeartbeatRequest:
    """Be the only member of a consumer group and own all partitions of orders; return the heartbeat without news."""
    fields = {"rebalance_timeout_ms": 5_000, "topic_partitions": [], "subscribed_topic_names": ["orders"]}
    joining = ConsumerGroupHeartbeatRequest(group_id=group, member_id="a", member_epoch=0, **fields)  # type: ignore[arg-type]
    told = await peer.ask(joining, 1, ConsumerGroupHeartbeatResponse)
    assert told.assignment is not None and told.assignment.topic_partitions
    await acknowledge(peer, group, told)
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id="a", member_epoch=told.member_epoch)


async def acknowledge(peer: Peer, group: str, told: ConsumerGroupHeartbeatResponse) -> None:
    assert told.assignment is not None
    owned = told.assignment.topic_partitions
    report = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="a", member_epoch=told.member_epoch, topic_partitions=owned
    )
    assert (await peer.ask(report, 1, ConsumerGroupHeartbeatResponse)).error_code == ErrorCode.NONE


def test_a_heartbeat_without_news_is_answered_by_a_shard_that_is_ready_and_by_no_other() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("orders", 1)
        quiet = await join(peer, "g")
        shard = world.broker.groups.shard("g")
        waiter = Waiter(quiet, 1)
        assert shard.quiet_heartbeat(quiet, waiter, None)
        assert code_of(waiter) == ErrorCode.NONE
        await world.broker.writer.drain()
        shard.resign()
        late = Waiter(quiet, 1)
        assert not shard.quiet_heartbeat(quiet, late, None)
        assert late.answer is None

    in_virtual_time(steps, {"group.heartbeat.hold.ms": "0"})


def test_a_heartbeat_is_held_no_longer_because_another_group_has_a_timer_that_fires_before() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        async with connected(f"127.0.0.1:{PORT}") as other:
            beat = await classic_member(peer, "a", 30_000)
            shard = world.broker.groups.shard("a")
            await classic_member(other, "b", 6_000)  # its session ends long before the hold
            began = world.loop.time()
            peer.send(beat, 3)
            await eventually(lambda: len(shard.waiting) == 1)
            assert (await peer.answer(HeartbeatResponse)).error_code == ErrorCode.NONE
            assert world.loop.time() - began <= HOLD_S + 0.1

    in_virtual_time(steps, ONE_SHARD)


# News

GROUPS = ("g0", "g1", "g2", "g3")
Steps = Callable[[VirtualBroker, Shard, list[Peer]], Coroutine[Any, Any, None]]


def with_held_heartbeats(steps: Steps) -> None:
    """Play a test with one held heartbeat of each group, all of one shard; new partitions are assigned at once."""

    async def play(world: VirtualBroker, peer: Peer) -> None:
        async with (
            connected(f"127.0.0.1:{PORT}") as second,
            connected(f"127.0.0.1:{PORT}") as third,
            connected(f"127.0.0.1:{PORT}") as fourth,
        ):
            peers = [peer, second, third, fourth]
            world.broker.topics.create("orders", 1)
            shard = world.broker.groups.shard("g0")
            for each, group in zip(peers, GROUPS, strict=True):
                each.send(await join(each, group), 1)
            await eventually(lambda: len(shard.waiting) == len(GROUPS))
            await steps(world, shard, peers)

    intervals = dict.fromkeys(
        ("group.consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms"), "0"
    )
    in_virtual_time(play, ONE_SHARD | intervals)


def grow(world: VirtualBroker, partitions: int) -> None:
    topic = world.broker.topics.named("orders")
    assert topic is not None
    world.broker.grow_topic(topic, partitions)
    world.broker.topics_image.tell()


async def assert_told(world: VirtualBroker, peers: Sequence[Peer], partitions: int) -> None:
    began = world.loop.time()
    for group, peer in zip(GROUPS, peers, strict=True):
        told = await peer.answer(ConsumerGroupHeartbeatResponse)
        assert told.assignment is not None
        assert len(told.assignment.topic_partitions[0].partitions) == partitions, group
    assert world.loop.time() - began < 0.1


@pytest.fixture
def told_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.broker.groups.shard._SLICES_PER_TURN", 1)


@pytest.mark.usefixtures("told_one_at_a_time")
def test_members_that_do_not_get_their_news_in_one_turn_get_it_in_the_next_ones() -> None:
    async def steps(world: VirtualBroker, shard: Shard, peers: list[Peer]) -> None:
        grow(world, 2)
        assert len(shard.waiting) == len(GROUPS) - 1
        await assert_told(world, peers, 2)

    with_held_heartbeats(steps)


@pytest.mark.usefixtures("told_one_at_a_time")
def test_requests_do_not_make_one_turn_send_more_news() -> None:
    async def steps(world: VirtualBroker, shard: Shard, peers: list[Peer]) -> None:
        grow(world, 2)
        for number in range(3):
            ask(shard, committing(number), 5)
        assert len(shard.waiting) == len(GROUPS) - 1
        await assert_told(world, peers, 2)

    with_held_heartbeats(steps)


# Loading again


def test_a_shard_is_loaded_at_once() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        answer = await peer.ask(committing(5), 5, OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        began = world.loop.time()
        await lead_again(world, "g")
        assert world.loop.time() - began < 0.1

    in_virtual_time(steps)


def test_while_a_shard_loads_again_heartbeats_are_taken_and_others_are_asked_to_wait() -> None:
    store = Full()
    world = VirtualBroker(store=store)
    shard = world.broker.groups.shard("g")

    async def steps() -> None:
        assert code_of(await settled(ask(shard, committing(1), 5))) == ErrorCode.NONE
        store.is_full = True
        for number in range(2):  # a second load within 200 ms waits for the end of that time
            assert code_of(await settled(ask(shard, committing(number), 5))) == ErrorCode.NOT_COORDINATOR
            if number == 0:
                await eventually(lambda: shard.ready)
        assert shard.leads and not shard.ready
        assert code_of(ask(shard, committing(2), 5)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        waiter = Waiter(beat, 4)
        shard.heartbeat(beat, waiter, None)
        assert code_of(waiter) == ErrorCode.NONE
        store.is_full = False
        await eventually(lambda: shard.ready)

    world.play(steps())
    world.play(world.broker.stop())


async def settled(waiter: Waiter) -> Waiter:
    await eventually(lambda: waiter.answer is not None)
    return waiter


class CompactedMeanwhile:
    """A log that cannot be read behind its first batch at first. When it can be read again, it has been compacted."""

    def __init__(self, before: PartitionLog, after: PartitionLog) -> None:
        self._before = before
        self._after = after
        self._failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._after, name)

    def read(self, offset: int, max_bytes: int) -> Sequence[Buffer]:
        if self._failed:
            return self._after.read(offset, max_bytes)
        if offset > 0:
            self._failed = True
            raise OSError(errno.EIO, "Input/output error")
        return self._before.read(offset, 1)  # the batch at that offset alone


def test_a_load_that_failed_leaves_nothing_in_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_WINDOW_KEYS", 1)  # the first batch is replayed before the second is read

    def committed(group: str) -> list[tuple[Message, Message | None]]:
        return [(OffsetCommitKey(group=group, topic="t"), OffsetCommitValue(offset=5))]

    async def steps(world: VirtualBroker, peer: Peer) -> None:
        log = CompactedMeanwhile(log_of(committed("gone"), committed("x")), log_of(committed("x"), committed("kept")))
        shard = world.broker.groups.shard("gone")
        shard.resign()
        shard.lead(log)
        await eventually(lambda: shard.ready)
        groups = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in ("gone", "kept")]
        gone, kept = (await peer.ask(OffsetFetchRequest(groups=groups), 8, OffsetFetchResponse)).groups
        assert (len(gone.topics), len(kept.topics)) == (0, 1)

    in_virtual_time(steps, ONE_SHARD)
