"""Lag in seconds on a running cluster, against the times at which records were produced."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

import pytest

from kohort import Admin, Consumer, ErrorCode, NewTopic, Producer, TopicPartition
from kohort.model import Millis
from kohort.testing import Invariant, Workspace
from kohort.watch import EndsSampled, GroupsChanged, Lag, Live, LiveEvent, Watching
from kohort.watch.group import GroupFound
from kohort.watch.source.clients import ClockJumps, cluster
from kohort.watch.source.dating import LagDater
from kohort.watch.source.ends import EndsSampler
from kohort.watch.source.offsets import OffsetQuestions
from kohort.watch.source.unread import FirstUnread
from tests.interop.broker import Broker

RIGHT_S = 1.0


def now() -> Millis:
    return time.time_ns() // 1_000_000


async def committed(servers: str, group: str, offsets: dict[TopicPartition, int]) -> None:
    async with Consumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign(list(offsets))
        await consumer.commit(offsets)


async def sampled(live: Live, rounds: int) -> None:
    """Wait until the ends were sampled so often."""
    done = asyncio.Event()
    left = rounds

    def sink(event: LiveEvent, _now: Millis) -> None:
        nonlocal left
        if isinstance(event, EndsSampled):
            left -= 1
            if left == 0:
                done.set()

    stop = live.subscribe(sink)
    await done.wait()
    stop()


def lag(live: Live, group: str, partition: TopicPartition, at: Millis) -> Lag | None:
    progress = live.snapshot(at).progress(live.groups[group])
    return next(each.lag for each in progress if each.partition == partition)


def right(found: Lag | None, truth: Millis) -> bool:
    return found is not None and abs(found.seconds - truth / 1000) <= RIGHT_S


async def lags(live: Live, group: str, partition: TopicPartition, records: int) -> None:
    """Wait until the group lags by so many records there."""
    while (found := lag(live, group, partition, now())) is None or found.records != records:
        await sampled(live, 1)
    # A round reports the ends, then asks for the times of the groups that changed before it began. The first report may
    # be of a round that began too early; the third one follows the end of one that did not.
    await sampled(live, 3)


async def dated(live: Live, servers: str, group: str, offsets: dict[TopicPartition, int]) -> None:
    """Wait until the watcher has asked for the times of records that arrived while it did not sample.

    On a busy machine, seconds may lie between two samples, and then the time between them is an estimate that is wrong
    by half of them. The watcher asks as soon as the group changes, here by a commit of the same offsets.
    """
    changed = asyncio.Event()

    def sink(event: LiveEvent, _now: Millis) -> None:
        if isinstance(event, GroupsChanged) and group in event.group_ids:
            changed.set()

    stop = live.subscribe(sink)
    await committed(servers, group, offsets)
    await changed.wait()
    stop()
    await sampled(live, 3)


async def test_lags_are_right_while_records_arrive_and_while_partitions_stand_still(any_broker: Broker) -> None:
    servers, name = any_broker.bootstrap, f"lag-{uuid4()}"
    busy, still = TopicPartition(name, 0), TopicPartition(name, 1)
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(name, 2)])
    past = now() - 7_200_000
    async with Producer(bootstrap_servers=servers) as producer:
        for number in range(200):
            await producer.send(name, b"x", partition=1, timestamp=past + number * 10_000)
        await (await producer.send(name, b"x", partition=0))
        await producer.flush()
        await committed(servers, name, {busy: 1, still: 120})
        async with Watching({"bootstrap_servers": servers}, history_ms=0, sampling_ms=200) as watching:
            await watching.caught_up()
            live = watching.live
            await lags(live, name, busy, 0)
            before = now()
            await (await producer.send(name, b"x", partition=0))
            after = now()
            await lags(live, name, busy, 1)
            await (await producer.send(name, b"x", partition=0))
            await lags(live, name, busy, 2)
            await dated(live, servers, name, {busy: 1})
            for _ in range(3):
                at = now()
                found = lag(live, name, busy, at)
                assert found is not None
                assert (at - after) / 1000 - RIGHT_S <= found.seconds <= (at - before) / 1000 + RIGHT_S
                found = lag(live, name, still, at)
                assert found is not None and found.records == 80
                assert right(found, at - past - 1_200_000)
                await sampled(live, 1)
            # A commit far behind the end, whose time no sample tells.
            await committed(servers, name, {still: 150})
            await lags(live, name, still, 50)
            at = now()
            found = lag(live, name, still, at)
            assert right(found, at - past - 1_500_000)
            # Its first unread record is deleted, as retention and compaction do.
            async with Admin(bootstrap_servers=servers) as admin:
                await admin.delete_records({still: 170})
            await committed(servers, name, {still: 160})
            while not right(lag(live, name, still, at := now()), at - past - 1_700_000):
                await sampled(live, 1)
            await committed(servers, name, {busy: 3, still: 200})
            await lags(live, name, still, 0)
            await lags(live, name, busy, 0)
            found = lag(live, name, still, now())
            assert found is not None and found.seconds == 0


async def test_what_no_consumer_receives_is_no_lag(any_broker: Broker) -> None:
    """Markers of transactions have offsets, and deleted records had some."""
    servers, name = any_broker.bootstrap, f"lag-{uuid4()}"
    marked, deleted = TopicPartition(name, 0), TopicPartition(name, 1)
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(name, 2)])
        async with Producer(bootstrap_servers=servers, transactional_id=name) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send(name, b"x", partition=0, timestamp=now() - 3_600_000)
            await producer.commit_transaction()
        async with Producer(bootstrap_servers=servers) as producer:
            for _ in range(3):
                await producer.send(name, b"x", partition=1, timestamp=now() - 3_600_000)
            await producer.flush()
            await committed(servers, name, {marked: 1, deleted: 1})
            await admin.delete_records({deleted: 3})
            async with Watching({"bootstrap_servers": servers}, history_ms=0, sampling_ms=200) as watching:
                await watching.caught_up()
                live = watching.live
                while any(
                    (found := lag(live, name, partition, now())) is None or (found.records, found.seconds) != (0, 0.0)
                    for partition in (marked, deleted)
                ):
                    await sampled(live, 1)
                assert live.ends[deleted].start == 3
                before = now()
                await (await producer.send(name, b"x", partition=0))
                after = now()
                await lags(live, name, marked, 1)
                await dated(live, servers, name, {marked: 1})
                at = now()
                found = lag(live, name, marked, at)
                assert found is not None
                assert (at - after) / 1000 - RIGHT_S <= found.seconds <= (at - before) / 1000 + RIGHT_S


async def test_a_timestamp_in_the_future_spoils_no_lag(kohort: Workspace) -> None:
    topic, group = kohort.topic("orders", partitions=1), kohort.group()
    servers, partition = kohort.bootstrap_servers, TopicPartition(topic, 0)
    kohort.broker.allow(Invariant.FETCHED_COMMITS, group)
    past = now() - 600_000
    async with Producer(bootstrap_servers=servers) as producer:
        for number in range(20):
            at = past + number * 1_000 if number != 3 else now() + 1_800_000
            await producer.send(topic, b"x", partition=0, timestamp=at)
        await producer.flush()
    await committed(servers, group, {partition: 10})
    async with Watching({"bootstrap_servers": servers}, history_ms=0, sampling_ms=200) as watching:
        await watching.caught_up()
        while not right(lag(watching.live, group, partition, at := now()), at - past - 10_000):
            await sampled(watching.live, 1)
        assert not watching.live.problems


async def test_timestamps_that_no_reading_replaces_are_called_estimates(kohort: Workspace) -> None:
    topic, group = kohort.topic("orders", partitions=1), kohort.group()
    servers, partition = kohort.bootstrap_servers, TopicPartition(topic, 0)
    kohort.broker.allow(Invariant.FETCHED_COMMITS, group)
    async with Producer(bootstrap_servers=servers) as producer:
        for ahead in (-600_000, 1_800_000, -600_000):
            await producer.send(topic, b"x", partition=0, timestamp=now() + ahead)
        await producer.flush()
    await committed(servers, group, {partition: 2})
    with kohort.fault(keys="Fetch", topic=topic, count=-1, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED):
        async with Watching({"bootstrap_servers": servers}, history_ms=0, sampling_ms=200) as watching:
            await watching.caught_up()
            while not watching.live.problems:
                await sampled(watching.live, 1)
            assert "some lags in seconds are estimates" in next(iter(watching.live.problems))


async def test_reading_a_record_holds_up_no_sample(kohort: Workspace) -> None:
    topic, group = kohort.topic("orders", partitions=1), kohort.group()
    options, partition = {"bootstrap_servers": kohort.bootstrap_servers}, TopicPartition(topic, 0)
    past = now() - 600_000
    async with Producer(bootstrap_servers=kohort.bootstrap_servers) as producer:
        await (await producer.send(topic, b"x", partition=0, timestamp=past))
    live, unread, client = Live(), FirstUnread(options, timeout_s=600), cluster(options)
    dater = LagDater(OffsetQuestions(client, live), unread, live)
    try:
        await dater.date([])  # the first round waits, because a snapshot depends on it
        live.found(GroupFound(group, "classic", "Empty", None, None, None, None, (), {partition: 0}), now())
        live.sampled({partition: 1}, now())
        held = kohort.fault(keys="Fetch", topic=topic, count=-1, hold=True)
        async with asyncio.timeout(300):
            await dater.date([group])
        held.remove()
        while not right(lag(live, group, partition, at := now()), at - past):
            await dater.date([group])
    finally:
        await dater.close()
        await unread.close()
        await client.close()


@pytest.mark.parametrize("wrong_by", [3_600_000, -3_600_000])
async def test_a_clock_that_is_set_spoils_no_lag(kohort: Workspace, wrong_by: Millis) -> None:
    topic, group = kohort.topic("orders", partitions=1), kohort.group()
    options, partition = {"bootstrap_servers": kohort.bootstrap_servers}, TopicPartition(topic, 0)
    live, unread, client = Live(), FirstUnread(options), cluster(options)
    questions, wrong = OffsetQuestions(client, live), wrong_by
    dater = LagDater(questions, unread, live)
    ends = EndsSampler(questions, dater, live, lambda: now() + wrong)
    try:
        async with Producer(bootstrap_servers=kohort.bootstrap_servers) as producer:
            await client.refresh()
            live.found(GroupFound(group, "classic", "Empty", None, None, None, None, (), {partition: 0}), now())
            await ends.sample()
            for _ in range(2):
                await (await producer.send(topic, b"x", partition=0))
                await ends.sample()
                wrong = 0  # the clock is set between the first record and the second one
            await ends.sample()
            found = lag(live, group, partition, now() + 30_000)
            assert found is not None and found.records == 2
            assert 30 - RIGHT_S <= found.seconds <= 50
            live.found(GroupFound(group, "classic", "Empty", None, None, None, None, (), {partition: 1}), now())
            await ends.sample()
            found = lag(live, group, partition, now() + 30_000)
            assert found is not None and found.records == 1
            assert 30 - RIGHT_S <= found.seconds <= 50
    finally:
        await ends.close()
        await unread.close()
        await client.close()


def test_a_clock_that_is_slow_or_fast_was_not_set() -> None:
    jumps = ClockJumps()
    assert not any(jumps.jumped(1_000_000 + 1_100 * step, 5.0 + step) for step in range(50))
    assert jumps.jumped(1_000_000, 55.0)
    assert not jumps.jumped(1_001_000, 56.0)
    assert jumps.jumped(1_003_000, 57.0)
