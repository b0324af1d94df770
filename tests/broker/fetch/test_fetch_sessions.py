"""Fetch sessions (KIP-227) at a running broker. How they answer, exchange by exchange, stands in the conversation with
Apache Kafka; here what cannot be seen from outside: rest, eviction, and what is left behind."""

from __future__ import annotations

import asyncio

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.apis import fetch as fetch_api
from kohort.broker.fetch.sessions import FetchedPartition, FetchSessions, places_of
from kohort.broker.fetch.waiting import WaitingFetches
from kohort.errors import ErrorCode
from kohort.model import UUID
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from tests.broker.apis.test_records import batch, store
from tests.broker.conftest import Connect, MakeBroker
from tests.broker.peer import Peer, talking_to, until
from tests.broker.virtual import VirtualBroker, eventually, in_virtual_time

V = 12


def wanted(*partitions: int, offset: int = 0, topic: str = "orders") -> list[FetchTopic]:
    some = [FetchPartition(partition=n, fetch_offset=offset, partition_max_bytes=1 << 20) for n in partitions]
    return [FetchTopic(topic=topic, partitions=some)]


def request(topics: list[FetchTopic], session_id: int = 0, epoch: int = 0, wait_ms: int = 0) -> FetchRequest:
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, session_id=session_id, session_epoch=epoch, topics=topics)


async def begin(peer: Peer, *partitions: int) -> int:
    """The id of a new session."""
    return (await peer.ask(request(wanted(*partitions)), V, FetchResponse)).session_id


@pytest.fixture(autouse=True)
def orders(broker: Broker) -> None:
    broker.topics.create("orders", 1_000)


async def test_an_idle_session_of_a_thousand_partitions_reads_none_of_them(
    peer: Peer, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    add = fetch_api._Gathered.add

    def counted(self: fetch_api._Gathered, place: FetchedPartition) -> object:
        read.append(place.wanted.partition)
        return add(self, place)

    session = await begin(peer, *range(1_000))
    monkeypatch.setattr(fetch_api._Gathered, "add", counted)
    for epoch in range(1, 4):
        answer = await peer.ask(request([], session, epoch, wait_ms=5), V, FetchResponse)
        assert answer.responses == []
    assert read == []
    await store(peer, batch(b"news"), partition=7)
    answer = await peer.ask(request([], session, 4), V, FetchResponse)
    assert [partition.partition_index for partition in answer.responses[0].partitions] == [7]
    assert read == [7]


async def test_a_session_that_waits_is_woken_by_any_of_its_partitions(peer: Peer, connect: Connect) -> None:
    waiting = await connect()
    session = await begin(waiting, *range(100))
    for epoch, partition in enumerate((3, 99, 3), 1):
        topics = {1: [], 2: wanted(3, offset=1), 3: wanted(99, offset=1)}[epoch]
        waiting.send(request(topics, session, epoch, wait_ms=60_000), V)
        await store(peer, batch(b"news"), partition=partition)
        (topic,) = (await waiting.answer(FetchResponse)).responses
        assert partition in [partition.partition_index for partition in topic.partitions]


def forgetting(*partitions: int, session: int, epoch: int, wait_ms: int = 0) -> FetchRequest:
    """The next request of a session, which fetches these no longer."""
    asked = request([], session, epoch, wait_ms)
    asked.forgotten_topics_data = [ForgottenTopic(topic="orders", partitions=list(partitions))]
    return asked


async def delete_before(peer: Peer, offset: int, partition: int = 0) -> None:
    wish = DeleteRecordsPartition(partition_index=partition, offset=offset)
    deletion = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=[wish])], timeout_ms=1_000)
    (topic,) = (await peer.ask(deletion, 2, DeleteRecordsResponse)).topics
    assert topic.partitions[0].error_code == ErrorCode.NONE


def answered(response: FetchResponse) -> list[int]:
    assert response.error_code == ErrorCode.NONE
    return [partition.partition_index for topic in response.responses for partition in topic.partitions]


@pytest.mark.parametrize("rests", [True, False], ids=["it rested", "it had records"])
async def test_a_partition_that_a_session_forgot_is_not_answered(peer: Peer, broker: Broker, rests: bool) -> None:
    session = await begin(peer, 0, 1)
    if not rests:
        await store(peer, batch(b"before"), partition=1)
    assert answered(await peer.ask(forgetting(1, session=session, epoch=1), V, FetchResponse)) == []
    await store(peer, batch(b"news"), partition=1)
    assert answered(await peer.ask(request([], session, 2), V, FetchResponse)) == []
    # It does not wake a fetch that waits either, but what the session still has does.
    peer.send(request([], session, 3, wait_ms=60_000), V)
    await until(lambda: broker.waiting_fetches.count == 1)
    async with talking_to(broker) as producer:
        await store(producer, batch(b"more news"), partition=1)
        assert broker.waiting_fetches.count == 1
        await store(producer, batch(b"news"), partition=0)
    assert answered(await peer.answer(FetchResponse)) == [0]


async def test_a_partition_that_was_forgotten_can_be_fetched_again(peer: Peer) -> None:
    session = await begin(peer, 0, 1)
    await peer.ask(forgetting(1, session=session, epoch=1), V, FetchResponse)
    await store(peer, batch(b"news"), partition=1)
    again = await peer.ask(request(wanted(1), session, 2), V, FetchResponse)
    assert answered(again) == [1]


@pytest.mark.parametrize("epoch", [0x7FFF_FFFF, 5, 2])
async def test_a_session_accepts_only_its_next_epoch(peer: Peer, epoch: int) -> None:
    session = await begin(peer, 0)
    answer = await peer.ask(request([], session, epoch), V, FetchResponse)
    assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert answered(await peer.ask(request([], session, 1), V, FetchResponse)) == []


async def test_a_session_returns_a_new_start_offset(peer: Peer) -> None:
    for _ in range(2):
        await store(peer, batch(b"old"))
    session = (await peer.ask(request(wanted(0, offset=2)), V, FetchResponse)).session_id
    assert answered(await peer.ask(request([], session, 1), V, FetchResponse)) == []
    await delete_before(peer, 1)
    (topic,) = (await peer.ask(request([], session, 2), V, FetchResponse)).responses
    assert [partition.log_start_offset for partition in topic.partitions] == [1]


async def test_a_partition_that_had_records_lets_others_go_first(peer: Peer) -> None:
    session = await begin(peer, 0, 1, 2)
    for partition in range(3):
        await store(peer, batch(b"x" * 100), partition=partition)
    seen = []
    for epoch in range(1, 7):
        narrow = request([], session, epoch)
        narrow.max_bytes = 1  # room for one batch
        (topic,) = (await peer.ask(narrow, V, FetchResponse)).responses
        seen += [partition.partition_index for partition in topic.partitions if partition.records]
    assert seen == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("why", ["its time is up", "its client is to be answered soon"])
def test_a_fetch_that_was_answered_takes_no_news_from_the_next(why: str) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("orders", 2)
        for _ in range(2):
            await store(peer, batch(b"old"), partition=1)
        both = [*wanted(0), *wanted(1, offset=2)]
        session = (await peer.ask(request(both), V, FetchResponse)).session_id
        assert session
        peer.send(request([], session, 1, wait_ms=1_000), V)
        await peer.writer.drain()
        await eventually(lambda: world.broker.waiting_fetches.count == 1)
        async with talking_to(world.broker) as other:
            await store(other, batch(b"news"), partition=0)
            assert answered(await peer.answer(FetchResponse)) == [0]
            await delete_before(other, 1, partition=1)
        if why == "its client is to be answered soon":
            world.broker.waiting_fetches.end_soon(("/127.0.0.1", "peer"))
            await asyncio.sleep(0.1)
        else:
            await asyncio.sleep(2)
        (topic,) = (await peer.ask(request(wanted(0, offset=1), session, 2), V, FetchResponse)).responses
        told = {partition.partition_index: partition.log_start_offset for partition in topic.partitions}
        assert told[1] == 1, "its client was never told that the partition begins later"

    in_virtual_time(steps)


async def test_a_fetch_without_a_session_leaves_nothing_to_watch(peer: Peer, broker: Broker) -> None:
    answer = await peer.ask(
        FetchRequest(max_wait_ms=10, min_bytes=1, session_epoch=-1, topics=wanted(0, 1)), V, FetchResponse
    )
    assert answered(answer) == [0, 1]
    assert not broker.waiting_fetches._open and not broker.waiting_fetches._watches


async def test_a_session_that_forgets_everything_ends(peer: Peer, broker: Broker) -> None:
    session = await begin(peer, 0, 1)
    assert answered(await peer.ask(forgetting(0, 1, session=session, epoch=1), V, FetchResponse)) == []
    gone = await peer.ask(request([], session, 2), V, FetchResponse)
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(broker.fetch_sessions) == 0


async def test_a_waiting_session_fetch_returns_the_deletion_of_its_topic(peer: Peer, connect: Connect) -> None:
    waiting = await connect()
    session = await begin(waiting, 0, 1)
    waiting.send(request([], session, 1, wait_ms=60_000), V)
    await peer.ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1_000), 5, DeleteTopicsResponse)
    (topic,) = (await waiting.answer(FetchResponse)).responses
    assert {partition.error_code for partition in topic.partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_the_later_of_two_requests_of_a_session_wins(broker: Broker, peer: Peer) -> None:
    # A client that gave up waiting, and whose first request was only late.
    session = await begin(peer, 0)
    peer.send(request([], session, 1, wait_ms=60_000), V)
    await until(lambda: broker.waiting_fetches.count == 1)
    peer.send(request([], session, 2, wait_ms=10), V)
    assert (await peer.answer(FetchResponse)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert (await peer.answer(FetchResponse)).error_code == ErrorCode.NONE


async def test_a_session_of_names_cannot_go_on_with_ids(peer: Peer) -> None:
    session = await begin(peer, 0)
    answer = await peer.ask(request([], session, 1), 13, FetchResponse)
    assert answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


async def test_a_session_returns_that_its_topic_was_recreated(broker: Broker, peer: Peer) -> None:
    topic = broker.topics.named("orders")
    assert topic is not None
    asked = [FetchTopic(topic_id=topic.topic_id, partitions=wanted(0)[0].partitions)]
    session = (await peer.ask(request(asked), 13, FetchResponse)).session_id
    broker.delete_topic(topic)
    broker.topics.create("orders", 1)
    (gone,) = (await peer.ask(request([], session, 1), 13, FetchResponse)).responses
    assert [partition.error_code for partition in gone.partitions] == [ErrorCode.INCONSISTENT_TOPIC_ID]


async def test_a_session_outlives_its_connection(connect: Connect, broker: Broker) -> None:
    first = await connect()
    session = await begin(first, 0)
    first.send(request([], session, 1, wait_ms=60_000), V)
    await until(lambda: broker.waiting_fetches.count == 1)
    first.writer.close()
    await until(lambda: broker.waiting_fetches.count == 0)
    second = await connect()
    assert (await second.ask(request([], session, 2), V, FetchResponse)).session_id == session


async def test_without_a_free_slot_no_session_is_created(start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings={"max.incremental.fetch.session.cache.slots": "1"}))
    broker.topics.create("orders", 2)
    async with talking_to(broker) as peer:
        kept = await begin(peer, 0)
        assert kept
        assert await begin(peer, 0, 1) == 0
        assert (await peer.ask(request([], kept, 1), V, FetchResponse)).error_code == ErrorCode.NONE
        # Asking for a new one ends the old one, and so there is room.
        renewed = await peer.ask(request(wanted(0), kept, 0), V, FetchResponse)
        assert renewed.session_id not in (0, kept)


async def test_closing_a_session_leaves_nothing_to_watch(peer: Peer, broker: Broker) -> None:
    session = await begin(peer, 0, 1, 2)
    assert len(broker.fetch_sessions) == 1
    await peer.ask(request(wanted(0), session, -1), V, FetchResponse)
    assert len(broker.fetch_sessions) == 0
    assert broker.waiting_fetches._watches == {}
    assert broker.waiting_fetches._open == {}


async def test_a_stopping_broker_answers_a_session_that_waits(peer: Peer, broker: Broker) -> None:
    session = await begin(peer, 0)
    peer.send(request([], session, 1, wait_ms=60_000), V)
    await until(lambda: broker.waiting_fetches.count == 1)
    await broker.stop()
    assert (await peer.answer(FetchResponse)).error_code == ErrorCode.NONE


# Eviction, in time that the test gives

MINUTE = 60_000


class Ids:
    """1, 2, 3..."""

    def __init__(self) -> None:
        self.last = 0

    def __call__(self) -> UUID:
        self.last += 1
        return UUID(int=self.last)


def sessions(slots: int) -> FetchSessions:
    return FetchSessions(slots, WaitingFetches(ends_early=False), Ids())


def opened(kept: FetchSessions, size: int, now: int) -> int | None:
    session = kept.open(places_of(wanted(*range(size)), V), V, now)
    return None if session is None else session.id


def is_there(kept: FetchSessions, session_id: int, epoch: int, now: int) -> bool:
    return not isinstance(kept.resume(request([], session_id, epoch), V, now), ErrorCode)


def test_a_session_that_was_used_lately_is_not_evicted_by_a_smaller_one() -> None:
    kept = sessions(2)
    assert (opened(kept, 5, 0), opened(kept, 3, 0)) == (1, 2)
    assert is_there(kept, 1, 1, 3 * MINUTE)
    assert is_there(kept, 2, 1, 3 * MINUTE)
    assert opened(kept, 3, 3 * MINUTE) is None
    assert opened(kept, 4, 3 * MINUTE) == 3
    assert is_there(kept, 1, 2, 3 * MINUTE)
    assert not is_there(kept, 2, 2, 3 * MINUTE)


def test_a_young_session_is_not_evicted_by_a_larger_one() -> None:
    # Else clients that begin at the same time would take the slots from each other again and again.
    kept = sessions(1)
    assert opened(kept, 1, 0) == 1
    assert opened(kept, 9, MINUTE) is None


def test_an_idle_session_is_evicted_whatever_its_size() -> None:
    kept = sessions(2)
    assert (opened(kept, 9, 0), opened(kept, 9, 0)) == (1, 2)
    assert is_there(kept, 1, 1, 2 * MINUTE)
    assert opened(kept, 1, 2 * MINUTE + 1) == 3
    assert is_there(kept, 1, 2, 2 * MINUTE + 1)
    assert not is_there(kept, 2, 1, 2 * MINUTE + 1)


def test_all_sessions_together_remember_a_million_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.broker.fetch.sessions._MOST_PLACES", 10)
    kept = sessions(5)
    assert opened(kept, 8, 0) == 1
    assert opened(kept, 3, 0) is None
    assert opened(kept, 2, 0) == 2
    grown = kept.resume(request(wanted(7), 2, 1), V, 0)
    assert grown is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert opened(kept, 2, 0) == 3


def test_epochs_begin_again_after_the_last() -> None:
    kept = sessions(1)
    opened(kept, 1, 0)
    session = kept.resume(request([], 1, 1), V, 0)
    assert not isinstance(session, ErrorCode)
    session.epoch = 0x7FFF_FFFF
    assert is_there(kept, 1, 0x7FFF_FFFF, 0)
    assert is_there(kept, 1, 1, 0)


def test_a_broker_without_slots_opens_no_session() -> None:
    assert opened(sessions(0), 1, 0) is None


def test_a_session_is_old_or_idle_only_after_two_minutes() -> None:
    kept = sessions(1)
    assert opened(kept, 1, 0) == 1
    assert opened(kept, 9, 2 * MINUTE) is None
    assert opened(kept, 9, 2 * MINUTE + 1) == 2
    assert is_there(kept, 2, 1, 4 * MINUTE)
    assert opened(kept, 10, 4 * MINUTE + 1) is None, "the other is two minutes old, and no more"
    assert opened(kept, 10, 4 * MINUTE + 2) == 3


def test_a_session_may_take_the_last_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.broker.fetch.sessions._MOST_PLACES", 3)
    kept = sessions(5)
    assert opened(kept, 2, 0) == 1
    assert not isinstance(kept.resume(request(wanted(2), 1, 1), V, 0), ErrorCode)
    assert isinstance(kept.resume(request(wanted(3), 1, 2), V, 0), ErrorCode)


def test_a_session_has_an_id_of_its_own_which_is_not_0() -> None:
    drawn = iter([0, 5, 0, 5, 1 << 31 | 5, 7])
    kept = FetchSessions(5, WaitingFetches(ends_early=False), lambda: UUID(int=next(drawn)))
    assert (opened(kept, 1, 0), opened(kept, 1, 0)) == (5, 7)


async def test_an_empty_partition_is_returned_when_a_session_adds_it(peer: Peer) -> None:
    session = await begin(peer, 0)
    assert answered(await peer.ask(request(wanted(1), session, 1), V, FetchResponse)) == [1]
    assert answered(await peer.ask(request([], session, 2), V, FetchResponse)) == []


async def test_a_session_with_topic_ids_distinguishes_topics(peer: Peer, broker: Broker) -> None:
    ids = [broker.topics.create(name, 1).topic_id for name in ("one", "two")]

    def by_id(*topic_ids: UUID) -> list[FetchTopic]:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        return [FetchTopic(topic_id=topic_id, partitions=[partition]) for topic_id in topic_ids]

    version = 13
    joined = await peer.ask(request(by_id(*ids)), version, FetchResponse)
    assert [topic.topic_id for topic in joined.responses] == ids
    forgets = request([], joined.session_id, 1)
    forgets.forgotten_topics_data = [ForgottenTopic(topic_id=ids[0], partitions=[0])]
    assert (await peer.ask(forgets, version, FetchResponse)).responses == []
    for name in ("one", "two"):
        await store(peer, batch(b"news"), topic=name)
    told = await peer.ask(request([], joined.session_id, 2), version, FetchResponse)
    assert [topic.topic_id for topic in told.responses] == ids[1:]
