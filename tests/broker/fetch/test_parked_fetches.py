"""Partitions that a fetch session watches, and the resources of a fetch after its response."""

from __future__ import annotations

import asyncio

import pytest

from kohort.broker.fetch.followers import LEADER
from kohort.broker.fetch.sessions import FetchedPartition, FetchSession
from kohort.broker.fetch.waiting import LogWatch, WaitingFetch, WaitingFetches
from kohort.log import MemoryStore, PartitionLog
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData
from tests.broker.peer import Peer
from tests.broker.virtual import VirtualBroker, in_virtual_time
from tests.log.logs import topic_in

CLIENT = ("/127.0.0.1", "peer")


@pytest.fixture
def logs() -> list[PartitionLog]:
    store = MemoryStore()
    topic_id = topic_in(store)
    return [store.partition(topic_id, number) for number in range(3)]


@pytest.fixture
def parked() -> WaitingFetches:
    return WaitingFetches(ends_early=True)


def session_of(parked: WaitingFetches, *partitions: int) -> tuple[FetchSession, list[FetchedPartition]]:
    """Return a session of these partitions, all without new data."""
    topic = FetchTopic(topic="orders")
    places = [FetchedPartition(("orders", number), topic, FetchPartition(partition=number)) for number in partitions]
    session = FetchSession(1, 12, {place.key: place for place in places}, parked, 0)
    for place in places:
        session.rest(place)
    return session, places


def forget(partition: int) -> FetchRequest:
    return FetchRequest(forgotten_topics_data=[ForgottenTopic(topic="orders", partitions=[partition])])


def test_a_partition_stirs_when_its_log_moves(parked: WaitingFetches, logs: list[PartitionLog]) -> None:
    session, (first, second) = session_of(parked, 0, 1)
    session.looked(first, logs[0])
    session.looked(second, logs[1])
    assert [parked.watches(log) for log in logs] == [True, True, False]
    parked.moved(logs)
    assert list(session.stirring.values()) == [first, second]
    session.rest(first)
    session.rest(second)
    parked.moved([logs[1]])
    assert list(session.stirring.values()) == [second]


def test_a_recreated_topic_has_other_logs(parked: WaitingFetches, logs: list[PartitionLog]) -> None:
    session, (place,) = session_of(parked, 0)
    before, now, _ = logs
    session.looked(place, before)
    session.looked(place, now)
    assert place.log is now
    parked.moved([before])
    assert not session.stirring
    assert not parked.watches(before)
    session.looked(place, now)
    parked.moved([now])
    assert list(session.stirring.values()) == [place]
    session.looked(place, None)
    assert not parked.watches(now)
    session.looked(place, None)


def test_forgotten_partitions_of_a_session_are_not_watched(parked: WaitingFetches, logs: list[PartitionLog]) -> None:
    session, (first, second) = session_of(parked, 0, 1)
    session.looked(first, logs[0])
    session.looked(second, logs[1])
    session.update(forget(0), 12)
    assert [parked.watches(log) for log in logs] == [False, True, False]
    parked.moved(logs)
    assert list(session.stirring.values()) == [second]
    assert session._by_log == {logs[1]: second}
    session.watch.close()
    assert not parked._open and not parked._watches


def test_a_partition_of_a_session_returns_only_changes() -> None:
    place = FetchedPartition(("orders", 0), FetchTopic(topic="orders"), FetchPartition())
    told = PartitionData(high_watermark=5, log_start_offset=2, preferred_read_replica=LEADER, records=[])
    assert place.has_changed(told)
    place.note_response(told)
    assert not place.has_changed(told)
    for change in ({"high_watermark": 6}, {"log_start_offset": 3}, {"preferred_read_replica": 2}, {"error_code": 3}):
        data = PartitionData(high_watermark=5, log_start_offset=2, preferred_read_replica=LEADER, records=[])
        for name, value in change.items():
            setattr(data, name, value)
        assert place.has_changed(data), change


class Looks:
    """Notes when a fetch looks again; it answers if there is `enough`, or it must."""

    def __init__(self) -> None:
        self.seen: list[bool] = []
        self.enough = False

    def __call__(self, last: bool) -> bool:
        self.seen.append(last)
        return last or self.enough


async def test_a_fetch_that_is_woken_for_too_little_waits_on(parked: WaitingFetches, logs: list[PartitionLog]) -> None:
    watch, looks = LogWatch(parked), Looks()
    watch.add(logs[0])
    WaitingFetch(watch, looks, CLIENT, wait_s=3_600)
    parked.moved(logs)
    assert (looks.seen, parked.count) == ([False], 1)
    looks.enough = True
    parked.moved(logs)
    assert (looks.seen, parked.count) == ([False, False], 0)
    parked.moved(logs)
    assert len(looks.seen) == 2
    assert not parked._open and not parked._watches and not parked._of_client


async def test_one_of_two_fetches_of_a_client_keeps_waiting_when_the_other_is_answered(
    parked: WaitingFetches, logs: list[PartitionLog]
) -> None:
    watches, looks = [LogWatch(parked), LogWatch(parked)], [Looks(), Looks()]
    for watch, look, log in zip(watches, looks, logs, strict=False):
        watch.add(log)
        WaitingFetch(watch, look, CLIENT, wait_s=3_600)
    looks[0].enough = True
    parked.moved([logs[0]])
    assert parked.count == 1
    parked.end_soon(CLIENT)
    async with asyncio.timeout(20):
        while not looks[1].seen:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert (looks[0].seen, looks[1].seen) == ([False], [True])
    assert not parked._of_client


async def test_a_session_that_ends_answers_its_fetch(parked: WaitingFetches, logs: list[PartitionLog]) -> None:
    session, (place,) = session_of(parked, 0)
    session.looked(place, logs[0])
    looks = Looks()
    WaitingFetch(session.watch, looks, CLIENT, wait_s=3_600)
    session.watch.close()
    assert looks.seen == [True]
    assert not parked._open and not parked._of_client


@pytest.mark.parametrize(("ends_early", "times"), [(True, 5), (False, 0)])
def test_a_client_that_is_kept_awake_is_answered_again_and_again(
    ends_early: bool, times: int, logs: list[PartitionLog]
) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        parked, looks = WaitingFetches(ends_early=ends_early), Looks()
        parked.keep_awake(CLIENT)
        for _ in range(200):  # its next fetch arrives within a millisecond
            if parked.count == 0:
                watch = LogWatch(parked)
                watch.add(logs[0])
                WaitingFetch(watch, looks, CLIENT, wait_s=3_600)
            await asyncio.sleep(0.001)
        assert looks.seen == [True] * times
        parked.expire_all()

    in_virtual_time(steps)
