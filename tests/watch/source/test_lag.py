"""Lag in seconds on a running cluster, against the times at which records were produced."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

from kohort import Admin, Consumer, NewTopic, Producer, TopicPartition
from kohort.model import Millis
from kohort.watch import EndsSampled, Lag, Live, LiveEvent, Watching
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
