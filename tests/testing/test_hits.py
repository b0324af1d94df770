"""Counts that tests await: what an outage has affected so far."""

import asyncio

import pytest

from kohort import blocking
from kohort.errors import KohortError
from kohort.testing import Broker, WaitTimeoutError
from kohort.testing.hits import Hits


async def test_a_wait_ends_with_the_hit_that_it_is_for() -> None:
    hits = Hits(lambda: "a fault")
    waiting = [asyncio.ensure_future(hits.wait(count, 30)) for count in (1, 2)]
    await asyncio.sleep(0)
    hits.add()
    assert await waiting[0] == 1
    assert not waiting[1].done()
    hits.add()
    assert await waiting[1] == 2
    assert await hits.wait(2, 0) == 2


async def test_a_wait_that_is_in_vain_says_how_many_hits_there_are() -> None:
    hits = Hits(lambda: "a fault")
    hits.add()
    with pytest.raises(TimeoutError, match=r"timed out after 0\.01 s waiting for 2 hit\(s\), have 1: a fault"):
        await hits.wait(2, 0.01)
    waiting = asyncio.ensure_future(hits.wait(2, 30))
    await asyncio.sleep(0)
    hits.end()
    for late in (waiting, hits.wait(2, 30)):
        with pytest.raises(KohortError, match=r"removed before it had 2 hit\(s\), with 1: a fault"):
            await late
    assert await hits.wait(1, 0) == 1


def test_requests_of_a_group_whose_coordinator_loads_are_counted() -> None:
    with Broker(topics={"orders": 1}) as broker, broker.load_coordinator("g") as loading:
        assert loading.hits == 0
        with pytest.raises(
            WaitTimeoutError, match=r"have 0: the coordinator of g answers COORDINATOR_LOAD_IN_PROGRESS"
        ):
            loading.wait(timeout_s=0.01)
        with blocking.Consumer("orders", bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
            consumer.poll(timeout=0)
            assert loading.wait(2) >= 2
            loading.undo()
            before = loading.hits
            broker.group("g").wait(state="Stable", members=1)
            assert loading.hits == before


def test_requests_to_a_partition_without_a_leader_are_counted() -> None:
    with (
        Broker(topics={"orders": 2}) as broker,
        blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        producer.send("orders", b"a", partition=1).result()
        with broker.lose_leader("orders", 1) as lost:
            producer.send("orders", b"b", partition=0).result()
            assert lost.hits == 0
            delivery = producer.send("orders", b"c", partition=1)
            assert lost.wait() >= 1
        assert delivery.result().offset == 1


async def test_writes_to_a_slow_disk_are_counted() -> None:
    async with Broker(topics={"orders": 1}) as broker:
        with broker.slow_disk(sync_ms=1) as slow:
            broker.topic("orders").produce("a")
            assert await slow.wait_async() >= 1
        with broker.fill_disk() as full, pytest.raises(KohortError):
            broker.topic("orders").produce("b")
        assert full.hits >= 1
