"""A connection that knows the shape of its commits answers and writes what one does that decodes each of them."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.broker import Broker, BrokerOptions
from kohort.broker.apis.dispatch import Dispatch
from kohort.broker.net import RepeatedCommits
from kohort.errors import ErrorCode
from kohort.log.api import Pending
from kohort.log.cluster import OFFSETS_TOPIC
from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.api import request_header
from kohort.wire.codec import encode
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.groups.test_groups import codes, join, join_request
from tests.broker.net.test_quiet_answers import SlowDisk
from tests.broker.peer import Peer, connected, talking_to, until
from tests.broker.virtual import PORT, VirtualBroker, in_virtual_time

TOPICS = {"orders": 4, "payments": 2}
TOPIC_IDS = {name: UUID(int=number) for number, name in enumerate(TOPICS, 1)}
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def create(broker: Broker, name: str, topic_id: UUID) -> None:
    """Create a topic with that ID, so that two brokers have the same."""
    fresh, broker.topics._fresh_id = broker.topics._fresh_id, lambda: topic_id
    broker.topics.create(name, TOPICS[name])
    broker.topics._fresh_id = fresh


def delete(broker: Broker, name: str) -> None:
    broker.topics.delete(broker.topics.all()[name])
    broker.groups.topics_deleted([name])


def commit(
    offset: int,
    *partitions: tuple[str, int],
    group: str = "g",
    member: tuple[str, int] = ("", -1),
    metadata: str | None = "",
    by_id: bool = False,
) -> OffsetCommitRequest:
    """A commit of rising offsets from `offset` on."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for number, (name, index) in enumerate(partitions, offset):
        one = OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=number,
            committed_leader_epoch=number % 3,
            committed_metadata=metadata,
        )
        topics.setdefault(name, []).append(one)
    return OffsetCommitRequest(
        group_id=group,
        member_id=member[0],
        generation_id_or_member_epoch=member[1],
        topics=[
            OffsetCommitRequestTopic(
                name="" if by_id else name, topic_id=TOPIC_IDS[name] if by_id else NO_TOPIC_ID, partitions=rows
            )
            for name, rows in topics.items()
        ],
    )


async def committed(peer: Peer, *partitions: tuple[str, int]) -> list[int]:
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[index]) for name, index in partitions]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    (group,) = (await peer.ask(request, 9, OffsetFetchResponse)).groups
    return [topic.partitions[0].committed_offset for topic in group.topics]


async def ask(peer: Peer, request: OffsetCommitRequest, version: int = 8) -> list[int]:
    return codes(await peer.ask(request, version, OffsetCommitResponse))


def known(world: VirtualBroker) -> RepeatedCommits:
    """What the only connection knows of its commits."""
    (connection,) = world.broker.sockets
    assert connection.commits is not None
    return connection.commits


def play(
    steps: Callable[[VirtualBroker, Peer], Coroutine[Any, Any, None]], broker_settings: dict[str, str] | None = None
) -> None:
    async def with_topics(world: VirtualBroker, peer: Peer) -> None:
        for name, topic_id in TOPIC_IDS.items():
            create(world.broker, name, topic_id)
        await steps(world, peer)

    in_virtual_time(with_topics, {**QUICK, **(broker_settings or {})})


# The same answers and records as without


@dataclass(frozen=True)
class Step:
    """A commit, and what happens before it."""

    request: OffsetCommitRequest
    version: int
    client_id: str
    before: str


PLACES = [*(("orders", index) for index in range(4)), ("payments", 0), ("payments", 1)]
SHAPES = st.lists(st.sampled_from([*PLACES, ("orders", 9)]), min_size=1, max_size=5, unique=True)


@st.composite
def scripts(draw: st.DrawFn) -> list[Step]:
    """Commits of a few shapes, in an order in which most have the shape of the one before."""
    shapes = draw(st.lists(SHAPES, min_size=1, max_size=3))
    steps: list[Step] = []
    shape, version, group, client_id = shapes[0], 8, "g", "peer"
    for number in range(draw(st.integers(2, 25))):
        match draw(st.integers(0, 9)):
            case 0:
                shape = draw(st.sampled_from(shapes))
            case 1:
                version = draw(st.integers(2, 10))
            case 2:
                group = draw(st.sampled_from(["g", "h"]))
            case 3:
                client_id = draw(st.sampled_from(["peer", "other"]))
        before = draw(st.sampled_from([*[""] * 12, "delete", "create anew", "create"]))
        request = commit(
            100 * number,
            *shape,
            group=group,
            # A group without members refuses a member, and a generation.
            member=draw(st.sampled_from([*[("", -1)] * 6, ("m", 1)])),
            metadata=draw(st.sampled_from([*[""] * 8, None, "m", "m" * 5_000])),
            by_id=version >= 10,
        )
        steps.append(Step(request, version, client_id, before))
    return steps


@contextmanager
def without_shapes() -> Iterator[None]:
    """Let brokers decode each commit by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatch, "_learn", lambda *_: None)
        yield


def played(script: Sequence[Step]) -> tuple[list[bytes], dict[int, bytes]]:
    """Return the answers to the commits, and the batches that the broker wrote."""
    answers: list[bytes] = []
    batches: dict[int, bytes] = {}

    async def steps(world: VirtualBroker, peer: Peer) -> None:
        broker = world.broker
        for step in script:
            if step.before in ("delete", "create anew") and broker.topics.named("orders") is not None:
                delete(broker, "orders")
            if step.before in ("create", "create anew") and broker.topics.named("orders") is None:
                create(broker, "orders", UUID(int=len(answers) + 10))
            peer.send(step.request, step.version, step.client_id)
            answers.append(await peer.receive_frame())
        topic = broker.topics.named(OFFSETS_TOPIC)
        assert topic is not None
        for partition in range(topic.partitions):
            log = broker.topics.log(topic, partition)
            assert log is not None
            if log.stable_offset:
                batches[partition] = b"".join(map(bytes, log.read(0, 1 << 20)))

    play(steps)
    return answers, batches


@settings(max_examples=40, deadline=None)
@given(scripts())
def test_answers_and_records_are_those_of_commits_that_are_decoded(script: Sequence[Step]) -> None:
    with without_shapes():
        expected = played(script)
    assert played(script) == expected


# Which commits have the shape


@pytest.mark.parametrize("version", range(2, 11))
def test_the_second_commit_has_the_shape_of_the_first(version: int) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        for number in range(3):
            request = commit(100 * number, *PLACES, by_id=version >= 10)
            assert await ask(peer, request, version) == [0] * 6
            assert known(world).hits == number
            assert await committed(peer, *PLACES) == list(range(100 * number, 100 * number + 6))

    play(steps)


def test_commits_in_flight_are_answered_in_their_order() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        shapes = [PLACES[:2], PLACES[:2], PLACES[2:], PLACES[:2], PLACES[2:], PLACES[2:]]
        for number, shape in enumerate(shapes):
            peer.send(commit(number, *shape), 8)
        for shape in shapes:
            answer = await peer.answer(OffsetCommitResponse)
            assert [p.partition_index for t in answer.topics for p in t.partitions] == [index for _, index in shape]
        assert await committed(peer, *PLACES) == [3, 4, 5, 6, 7, 8]
        assert known(world).hits

    play(steps)


def test_shapes_that_are_of_no_use_are_learnt_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    learnt = []
    monkeypatch.setattr("kohort.broker.net.repeated_commits.shape_of", lambda *_: learnt.append(1))

    async def steps(world: VirtualBroker, peer: Peer) -> None:
        for number in range(200):
            assert await ask(peer, commit(number, PLACES[number % 2])) == [0]
        assert len(learnt) <= 8

    play(steps)


def test_a_shape_that_was_of_use_is_replaced_at_once() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        for shape in (PLACES[:1], PLACES[1:4]):
            for number in range(12):
                await ask(peer, commit(number, *shape))
            assert known(world).hits >= 10

    play(steps)


# What changes between two commits


def test_a_commit_of_an_old_generation_is_refused() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        async with connected(f"127.0.0.1:{PORT}") as other:
            member = await join(other)
            for number in range(3):
                assert await ask(peer, commit(number, *PLACES[:2], member=member)) == [0, 0]
            first = known_of(world, peer).hits
            rejoined = await other.ask(join_request("g", member[0]), 9, JoinGroupResponse)
            assert rejoined.generation_id == member[1] + 1
            refused = [ErrorCode.ILLEGAL_GENERATION] * 2
            assert await ask(peer, commit(7, *PLACES[:2], member=member)) == refused
            assert known_of(world, peer).hits == first + 1
            assert await committed(peer, *PLACES[:2]) == [2, 3]

    def known_of(world: VirtualBroker, peer: Peer) -> RepeatedCommits:
        (found,) = [c.commits for c in world.broker.sockets if c.commits is not None]
        return found

    play(steps)


def test_a_topic_that_was_deleted_is_unknown() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        places = [("orders", 0), ("payments", 0)]
        for number in range(3):
            assert await ask(peer, commit(number, *places)) == [0, 0]
        delete(world.broker, "orders")
        assert await ask(peer, commit(50, *places)) == [UNKNOWN, 0]
        assert await committed(peer, *places) == [-1, 51]

    play(steps)


def test_offsets_of_a_topic_that_was_created_again_have_its_new_id() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        for number in range(3):
            assert await ask(peer, commit(number, ("orders", 0))) == [0]
        delete(world.broker, "orders")
        create(world.broker, "orders", UUID(int=77))
        for number in range(6):
            assert await ask(peer, commit(57 + number, ("orders", 0))) == [0]
        assert known(world).hits, "the shape was learnt again"
        group = world.broker.groups.shard("g").group("g")
        assert group is not None
        stored = group.offsets["orders"][0]
        assert (stored.offset, stored.topic_id) == (62, UUID(int=77))

    play(steps)


def test_the_id_of_a_topic_that_was_created_again_is_unknown() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        for number in range(3):
            assert await ask(peer, commit(number, ("orders", 0), by_id=True), 10) == [0]
        delete(world.broker, "orders")
        create(world.broker, "orders", UUID(int=77))
        answer = await peer.ask(commit(50, ("orders", 0), by_id=True), 10, OffsetCommitResponse)
        assert codes(answer) == [ErrorCode.UNKNOWN_TOPIC_ID]
        assert answer.topics[0].topic_id == TOPIC_IDS["orders"]

    play(steps)


def test_a_commit_for_another_client_id_is_decoded_anew() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        for client_id in ("one", "one", "two", "one"):
            peer.send(commit(1, ("orders", 0)), 8, client_id)
            assert codes(await peer.answer(OffsetCommitResponse)) == [0]
            (connection,) = world.broker.sockets
            assert connection.client_id == client_id

    play(steps)


def test_the_same_bytes_of_another_version_are_another_request(caplog: pytest.LogCaptureFixture) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        for number in range(3):
            assert await ask(peer, commit(number, ("orders", 0)), 6) == [0]
        request = commit(9, ("orders", 0))
        frame = request_header(request.KEY, 6, 7, "peer") + encode(request, 6)
        peer.send_frame(
            struct.pack(">hh", request.KEY, 7) + frame[4:]
        )  # version 7 has an instance ID before the topics
        assert await peer.closed()

    play(steps)
    assert "is longer than its message" in caplog.text


def test_a_coordinator_that_is_not_ready_refuses_each_partition() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        for number in range(3):
            assert await ask(peer, commit(number, *PLACES)) == [0] * 6
        world.broker.groups.resign()
        assert await ask(peer, commit(9, *PLACES)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 6
        assert known(world).hits == 3

    play(steps)


# Durability


class FailingDisk(SlowDisk):
    """A slow disk that may turn out to be full."""

    is_full = False

    def sync(self, pending: Pending) -> None:
        super().sync(pending)
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(("is_full", "code"), [(False, ErrorCode.NONE), (True, ErrorCode.NOT_COORDINATOR)])
async def test_a_commit_is_answered_when_it_is_on_disk(
    start_broker: MakeBroker, is_full: bool, code: ErrorCode
) -> None:
    store = FailingDisk()
    broker = await start_broker(BrokerOptions(port=0, settings=QUICK), store)
    for name, topic_id in TOPIC_IDS.items():
        create(broker, name, topic_id)
    async with talking_to(broker) as peer:
        for number in range(3):
            assert await ask(peer, commit(number, *PLACES)) == [0] * 6
        (connection,) = broker.sockets
        await until(lambda: not store.writing)
        store.permit.clear()
        peer.send(commit(50, *PLACES), 8)
        await until(lambda: store.writing)
        assert connection.commits is not None and connection.commits.hits == 3
        assert connection.waiting == 1
        store.is_full = is_full
        store.permit.set()
        assert codes(await peer.answer(OffsetCommitResponse)) == [code] * 6
        store.is_full = False
        await broker.groups.shard("g").loaded()
        assert await committed(peer, ("orders", 0)) == [2 if is_full else 50]
