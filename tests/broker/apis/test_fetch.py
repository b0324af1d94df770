"""A fetch: when it is answered, how many bytes it returns, and the error of each partition."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kohort.broker import BrokerOptions
from kohort.broker.fetch.followers import LEADER, FollowerReads
from kohort.errors import ErrorCode
from kohort.group_events import AssignmentMade, MemberFacts
from kohort.log import PartitionLog, Topic
from kohort.model import TopicPartition
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tests.broker.conftest import MakeBroker
from tests.broker.peer import Peer, talking_to
from tests.broker.virtual import VirtualBroker, eventually, in_virtual_time

V = 12
BATCH = bytes(encode_batch([Record(0, 1_000, None, b"x" * 100)]))
SIZE = len(BATCH)
MIB = 1 << 20
WAIT_MS = 30_000


async def append(world: VirtualBroker, partition: int = 0, count: int = 1) -> None:
    log = world.broker.partition("t", partition)
    assert log is not None
    for _ in range(count):
        log.append(bytearray(BATCH), log.leader_epoch)
    world.broker.writer.current()
    await world.broker.writer.drain()


def wanted(*places: tuple[int, int], most: int = MIB, epoch: int = -1) -> list[FetchTopic]:
    """Partitions of the topic t, each with its offset."""
    return [
        FetchTopic(
            topic="t",
            partitions=[
                FetchPartition(
                    partition=number, fetch_offset=offset, partition_max_bytes=most, current_leader_epoch=epoch
                )
                for number, offset in places
            ],
        )
    ]


def request(
    topics: Sequence[FetchTopic] = (), *, min_bytes: int = 1, wait_ms: int = 0, max_bytes: int = MIB
) -> FetchRequest:
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=list(topics))


async def ask(peer: Peer, asked: FetchRequest, version: int = V) -> list[PartitionData]:
    """Fetch without a session, and return the partitions of the answer."""
    asked.session_epoch = -1
    answer = await peer.ask(asked, version, FetchResponse)
    return [partition for topic in answer.responses for partition in topic.partitions]


def found(partitions: Sequence[PartitionData]) -> list[tuple[int, ErrorCode, int]]:
    """Number, error and bytes of each partition."""
    return [
        (partition.partition_index, ErrorCode(partition.error_code), len(partition.records or b""))
        for partition in partitions
    ]


# When it is answered


def test_a_fetch_that_finds_its_bytes_is_answered_at_once_and_another_waits_for_its_time() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await append(world)
        for min_bytes, passed_s in ((SIZE, 0), (SIZE + 1, WAIT_MS / 1000)):
            began = world.loop.time()
            asked = request(wanted((0, 0)), min_bytes=min_bytes, wait_ms=WAIT_MS)
            assert found(await ask(peer, asked)) == [(0, ErrorCode.NONE, SIZE)]
            assert passed_s <= world.loop.time() - began < passed_s + 0.01

    in_virtual_time(steps)


def test_a_fetch_of_nothing_is_answered_at_once() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        began = world.loop.time()
        assert await ask(peer, request(wait_ms=WAIT_MS)) == []
        assert world.loop.time() - began < 0.01

    in_virtual_time(steps)


def test_a_fetch_waits_until_all_of_its_bytes_have_arrived() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        began = world.loop.time()
        peer.send(request(wanted((0, 0)), min_bytes=2 * SIZE, wait_ms=WAIT_MS), V)
        await eventually(lambda: world.broker.waiting_fetches.count == 1)
        await append(world)
        assert world.broker.waiting_fetches.count == 1, "it waits for more"
        await append(world)
        (topic,) = (await peer.answer(FetchResponse)).responses
        assert found(topic.partitions) == [(0, ErrorCode.NONE, 2 * SIZE)]
        assert world.loop.time() - began < 1

    in_virtual_time(steps)


class NearbyReplica(FollowerReads):
    """Sends every consumer that has a rack to `node`, as when a broker in its rack becomes a replica."""

    node = LEADER

    def preferred(self, topic: Topic, partition: int, partition_log: PartitionLog, rack: str) -> int:
        return self.node


def test_a_parked_fetch_that_should_read_from_another_replica_does_not_wait_for_its_bytes() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        world.broker.follower_reads = replicas = NearbyReplica(world.broker)
        began = world.loop.time()
        asked = request(wanted((0, 0)), min_bytes=2 * SIZE, wait_ms=WAIT_MS)
        asked.rack_id = "a"
        peer.send(asked, V)
        await eventually(lambda: world.broker.waiting_fetches.count == 1)
        replicas.node = 7
        await append(world)
        ((data,),) = [topic.partitions for topic in (await peer.answer(FetchResponse)).responses]
        assert (data.preferred_read_replica, len(data.records or b"")) == (7, 0)
        assert world.loop.time() - began < 1

    in_virtual_time(steps)


@pytest.mark.parametrize(
    ("rack", "offset", "expected"),
    [
        ("a", 0, (ErrorCode.NONE, 7)),
        ("a", 1, (ErrorCode.NONE, 7)),
        ("", 0, (ErrorCode.NONE, LEADER)),
        ("a", 2, (ErrorCode.OFFSET_OUT_OF_RANGE, LEADER)),
        ("a", -1, (ErrorCode.OFFSET_OUT_OF_RANGE, LEADER)),
    ],
)
def test_a_consumer_with_a_rack_reads_from_a_replica_if_it_reads_an_offset_that_the_leader_has(
    rack: str, offset: int, expected: tuple[ErrorCode, int]
) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await append(world)
        world.broker.follower_reads = replicas = NearbyReplica(world.broker)
        replicas.node = 7
        asked = request(wanted((0, offset)))
        asked.rack_id = rack
        for version in (11, V):
            (data,) = await ask(peer, asked, version)
            assert (data.error_code, data.preferred_read_replica) == expected

    in_virtual_time(steps)


# Events for the rebalance journal


def test_a_fetch_ends_the_wait_for_the_first_read_when_it_arrives_unless_it_fails() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 2)
        journal, owner = world.broker.journal, MemberFacts("m", "peer", "/127.0.0.1")
        owned = frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})
        assigned = AssignmentMade("g", 1, "range", "m", (owner,), {"m": owned})
        journal.observe(assigned, world.broker.now())
        await ask(peer, request(wanted((0, 0))))
        await ask(peer, request(wanted((1, 5))))
        assert journal.watching, "nobody has read the second partition"
        peer.send(request(wanted((1, 0)), wait_ms=WAIT_MS), V)
        await eventually(lambda: world.broker.waiting_fetches.count == 1)
        assert not journal.watching, "its owner waits for records"

    in_virtual_time(steps)


# How much it returns


@pytest.mark.parametrize(("max_bytes", "whole"), [(1, 1), (2 * SIZE - 1, 1), (2 * SIZE, 2), (3 * SIZE, 3)])
def test_a_fetch_returns_whole_batches_within_its_limit_and_at_least_one(max_bytes: int, whole: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 3)
        for partition in range(3):
            await append(world, partition)
        asked = request(wanted((0, 0), (1, 0), (2, 0)), max_bytes=max_bytes)
        sizes = [size for _, _, size in found(await ask(peer, asked))]
        assert sizes == [SIZE] * whole + [0] * (3 - whole)

    in_virtual_time(steps)


def test_the_limit_of_one_partition_is_its_own() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 2)
        await append(world, 0, count=3)
        await append(world, 1, count=3)
        for most, sizes in ((0, [SIZE, 0]), (SIZE, [SIZE, SIZE]), (MIB, [3 * SIZE, 3 * SIZE])):
            assert [size for _, _, size in found(await ask(peer, request(wanted((0, 0), (1, 0), most=most))))] == sizes

    in_virtual_time(steps)


def test_a_partition_for_which_no_bytes_are_left_still_reports_an_offset_out_of_range() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 4)
        for partition in range(4):
            await append(world, partition)
        partitions = await ask(peer, request(wanted((0, 0), (1, 2), (2, -5), (3, 1)), max_bytes=SIZE))
        assert found(partitions) == [
            (0, ErrorCode.NONE, SIZE),
            (1, ErrorCode.OFFSET_OUT_OF_RANGE, 0),
            (2, ErrorCode.OFFSET_OUT_OF_RANGE, 0),
            (3, ErrorCode.NONE, 0),
        ]

    in_virtual_time(steps)


# Contents of the response for each partition


def test_an_error_has_no_offsets_and_the_others_have_theirs() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await append(world)
        failed, unknown, fine = await ask(peer, request(wanted((0, 7), (1, 0), (0, 0))))
        for data in (failed, unknown):
            assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)
        assert (failed.error_code, failed.aborted_transactions) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)
        assert (unknown.error_code, unknown.aborted_transactions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
        assert (fine.high_watermark, fine.last_stable_offset, fine.log_start_offset) == (1, 1, 0)

    in_virtual_time(steps)


@pytest.mark.parametrize(("isolation_level", "aborted"), [(0, None), (1, [])])
def test_a_client_that_reads_committed_records_gets_a_list_of_aborted_transactions(
    isolation_level: int, aborted: list[object] | None
) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        asked = request(wanted((0, 0)))
        asked.isolation_level = isolation_level
        (data,) = await ask(peer, asked)
        assert data.aborted_transactions == aborted

    in_virtual_time(steps)


def test_a_fetch_of_the_current_leader_epoch_is_answered_and_one_of_a_later_epoch_is_not() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        log = world.broker.partition("t", 0)
        assert log is not None
        for later, code in ((0, ErrorCode.NONE), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)):
            (data,) = await ask(peer, request(wanted((0, 0), epoch=log.leader_epoch + later)))
            assert data.error_code == code

    in_virtual_time(steps)


async def test_a_fetch_of_an_earlier_leader_epoch_is_fenced(start_broker: MakeBroker, tmp_path: Path) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data")
    first = await start_broker(options)
    first.topics.create("t", 1)
    await first.stop()
    async with talking_to(await start_broker(options)) as peer:
        (data,) = await ask(peer, request(wanted((0, 0), epoch=0)))
        assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH


# In a session


async def begin(peer: Peer, topics: list[FetchTopic], version: int = V) -> int:
    asked = request(topics)
    asked.session_epoch = 0
    return (await peer.ask(asked, version, FetchResponse)).session_id


async def go_on(
    peer: Peer, session_id: int, epoch: int, version: int = V, *, max_bytes: int = MIB
) -> list[PartitionData]:
    asked = request(max_bytes=max_bytes)
    asked.session_id, asked.session_epoch = session_id, epoch
    answer = await peer.ask(asked, version, FetchResponse)
    return [partition for topic in answer.responses for partition in topic.partitions]


def test_a_session_reports_a_new_high_watermark_once() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 3)
        for partition in range(3):
            await append(world, partition)
        session = await begin(peer, wanted((0, 0), (1, 0), (2, 0)))
        # One partition is read at a time, and those that were read go to the end.
        assert found(await go_on(peer, session, 1, max_bytes=1)) == [(0, ErrorCode.NONE, SIZE)]
        await append(world, 0)
        read, told = await go_on(peer, session, 2, max_bytes=1)
        assert (read.partition_index, told.partition_index, told.high_watermark) == (1, 0, 2)
        assert found(await go_on(peer, session, 3, max_bytes=1)) == [(2, ErrorCode.NONE, SIZE)]

    in_virtual_time(steps)


def test_a_session_repeats_an_error_until_the_client_asks_for_something_else() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        session = await begin(peer, wanted((0, -1)))
        for epoch in (1, 2):
            assert found(await go_on(peer, session, epoch)) == [(0, ErrorCode.OFFSET_OUT_OF_RANGE, 0)]

    in_virtual_time(steps)


@pytest.mark.parametrize(
    ("is_made_again", "code", "aborted"),
    [(True, ErrorCode.INCONSISTENT_TOPIC_ID, None), (False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])],
)
def test_a_session_over_topic_ids_distinguishes_a_topic_that_was_made_again(
    is_made_again: bool, code: ErrorCode, aborted: list[object] | None
) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        topic = world.broker.topics.create("t", 1)
        topics = wanted((0, 0))
        topics[0].topic_id = topic.topic_id
        session = await begin(peer, topics, 13)
        world.broker.delete_topic(topic)
        if is_made_again:
            world.broker.topics.create("t", 1)
        (data,) = await go_on(peer, session, 1, 13)
        assert (data.error_code, data.aborted_transactions) == (code, aborted)

    in_virtual_time(steps)


def test_a_fetch_whose_connection_the_broker_has_closed_opens_no_session() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        asked = request(wanted((0, 0)), wait_ms=WAIT_MS)
        asked.session_epoch = 0
        peer.send(asked, V)
        await eventually(lambda: world.broker.waiting_fetches.count == 1)
        (connection,) = world.broker.sockets
        log = world.broker.partition("t", 0)
        assert log is not None
        log.append(bytearray(BATCH), log.leader_epoch)
        world.broker.writer.current().then(connection.close, pytest.fail)
        assert await peer.closed()
        assert len(world.broker.fetch_sessions) == 0

    in_virtual_time(steps)
