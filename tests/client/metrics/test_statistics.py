"""Statistics in the form of librdkafka: their figures, and when the application gets them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import Future
from typing import Any

import pytest

from kohort import ConfigError, Consumer, Producer, blocking
from kohort.client.metrics import StatisticsTimer, window
from tests.client.conftest import NewTopicName
from tests.client.virtual_time import in_virtual_time
from tests.interop.broker import Broker


class Inbox:
    """Documents that a client passed to the application."""

    def __init__(self) -> None:
        self._texts: asyncio.Queue[str] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def __call__(self, text: str) -> None:
        self._loop.call_soon_threadsafe(self._texts.put_nowait, text)

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        async with asyncio.timeout(30):
            while True:
                yield json.loads(await self._texts.get())


def test_a_window_has_percentiles_and_is_empty_afterwards() -> None:
    samples = deque(float(number) for number in range(1, 101))
    found = window(samples)
    assert (found["min"], found["max"], found["avg"], found["sum"], found["cnt"]) == (1, 100, 50, 5050, 100)
    assert (found["p50"], found["p75"], found["p90"], found["p95"], found["p99"]) == (50, 75, 90, 95, 99)
    assert (found["p99_99"], found["stddev"], found["outofrange"]) == (100, 28, 0)
    assert set(window(samples).values()) == {0} and window(samples).keys() == found.keys()


def test_a_document_is_made_every_interval_until_the_end() -> None:
    class Client:
        def collect(self, now: float) -> dict[str, object]:
            return {"now": now}

    async def work() -> list[dict[str, Any]]:
        client, texts = Client(), list[str]()
        timer = StatisticsTimer("consumer", "shop", 60.0, texts.append, client.collect)
        await asyncio.sleep(200)
        timer.close()
        await asyncio.sleep(200)
        return [json.loads(text) for text in texts]

    one, other, last = in_virtual_time(work)
    assert (one["age"], other["age"], last["age"]) == (60_000_000, 120_000_000, 180_000_000)
    assert other["ts"] - one["ts"] == 60_000_000 and other["now"] == one["now"] + 60
    assert (one["client_id"], one["type"]) == ("shop", "consumer")
    assert one["name"].startswith("shop#consumer-")


def test_an_exception_of_the_application_is_logged_and_the_next_document_follows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Client:
        def collect(self, now: float) -> dict[str, object]:
            return {}

    calls = []

    def fail(text: str) -> None:
        calls.append(text)
        raise ValueError("no room")

    async def work() -> None:
        client = Client()
        timer = StatisticsTimer("producer", "shop", 60.0, fail, client.collect)
        await asyncio.sleep(130)
        timer.close()

    with caplog.at_level(logging.ERROR, "kohort.client"):
        in_virtual_time(work)
    assert len(calls) == 2
    assert [record.getMessage() for record in caplog.records] == ["on_statistics raised an exception"] * 2


def test_a_client_that_was_dropped_has_no_statistics() -> None:
    class Client:
        def collect(self, now: float) -> dict[str, object]:
            return {}

    async def work() -> list[str]:
        texts: list[str] = []
        StatisticsTimer("producer", "shop", 60.0, texts.append, Client().collect)
        await asyncio.sleep(300)
        return texts

    assert in_virtual_time(work) == []


async def test_a_producers_statistics_have_its_records_and_brokers(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic, inbox = await new_topic(2), Inbox()
    async with Producer(
        bootstrap_servers=any_broker.bootstrap, on_statistics=inbox, statistics_interval_ms=50
    ) as producer:
        for number in range(10):
            await producer.send(topic, bytes(100), partition=number % 2)
        await producer.flush()
        async for found in inbox:
            if found["txmsgs"] == 10 and found["msg_cnt"] == 0:
                break
    assert found["type"] == "producer" and found["txmsg_bytes"] >= 1_000 and found["msg_size"] == 0
    partitions = found["topics"][topic]["partitions"]
    assert {number: one["txmsgs"] for number, one in partitions.items()} == {"0": 5, "1": 5}
    (leader,) = {one["leader"] for one in partitions.values()}
    broker = next(one for one in found["brokers"].values() if one["nodeid"] == leader)
    assert broker["state"] == "UP" and broker["source"] == "learned" and broker["tx"] >= broker["req"]["Produce"] > 0
    assert {one["partition"] for one in broker["toppars"].values()} == {0, 1}
    assert found["tx"] == sum(one["tx"] for one in found["brokers"].values())
    assert found["rx_bytes"] == sum(one["rxbytes"] for one in found["brokers"].values())


async def test_round_trips_and_batches_are_those_since_the_last_statistics(
    any_broker: Broker, new_topic: NewTopicName
) -> None:
    topic, inbox = await new_topic(), Inbox()
    async with Producer(
        bootstrap_servers=any_broker.bootstrap, on_statistics=inbox, statistics_interval_ms=50
    ) as producer:
        await (await producer.send(topic, bytes(100)))
        trips = batches = 0
        async for found in inbox:
            trips += sum(one["rtt"]["cnt"] for one in found["brokers"].values())
            batches += found["topics"][topic]["batchcnt"]["cnt"]
            if found["rx"] == trips and batches == 1:
                break


async def test_a_consumers_statistics_have_offsets_lag_and_group(
    any_broker: Broker, new_topic: NewTopicName, fresh: str, protocol: dict[str, Any]
) -> None:
    topic, inbox = await new_topic(), Inbox()
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        await producer.send_values(topic, [b"x"] * 30, partition=0)
    options = {
        "bootstrap_servers": any_broker.bootstrap,
        "group_id": fresh,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        **protocol,
    }
    async with Consumer(topic, on_statistics=inbox, statistics_interval_ms=50, **options) as consumer:
        records = await consumer.poll(max_records=10, timeout=20.0)
        while not records:
            records = await consumer.poll(max_records=10, timeout=20.0)
        await consumer.commit()
        await consumer.poll(max_records=5)
        async for found in inbox:
            partition = found["topics"].get(topic, {"partitions": {}})["partitions"].get("0", {})
            if partition.get("committed_offset") == 10 and partition["app_offset"] == 15:
                break
        assert (partition["lo_offset"], partition["hi_offset"], partition["ls_offset"]) == (0, 30, 30)
        assert (partition["next_offset"], partition["stored_offset"], partition["fetch_state"]) == (30, 15, "active")
        assert (partition["consumer_lag"], partition["consumer_lag_stored"], partition["eof_offset"]) == (20, 15, -1001)
        group = found["cgrp"]
        assert (group["state"], group["join_state"], group["assignment_size"]) == ("up", "steady", 1)
        assert group["rebalance_cnt"] == 1 and group["rebalance_age"] >= 0
        assert "GroupCoordinator" in found["brokers"] and found["type"] == "consumer"
    other = Inbox()
    async with Consumer(topic, on_statistics=other, statistics_interval_ms=50, **options) as consumer:
        while not (await consumer.poll(max_records=1)):
            pass
        async for found in other:
            if topic in found["topics"]:
                break
        # This consumer has committed nothing: the group has.
        assert found["topics"][topic]["partitions"]["0"]["committed_offset"] == 10


async def test_statistics_end_when_the_client_is_closed(any_broker: Broker) -> None:
    inbox = Inbox()
    async with Consumer(
        bootstrap_servers=any_broker.bootstrap, on_statistics=inbox, statistics_interval_ms=10
    ) as consumer:
        async for _ in inbox:
            break
        timer = consumer._statistics
        assert timer is not None and timer._timer is not None
    assert timer._timer is None


async def test_a_blocking_client_passes_statistics_from_its_own_thread(any_broker: Broker) -> None:
    inbox = Inbox()

    def work() -> None:
        with blocking.Producer(
            bootstrap_servers=any_broker.bootstrap, on_statistics=inbox, statistics_interval_ms=20
        ) as producer:
            arrived.result(30)
            producer.flush()

    arrived: Future[None] = Future()
    working = asyncio.create_task(asyncio.to_thread(work))
    async for found in inbox:
        assert found["type"] == "producer"
        break
    arrived.set_result(None)
    await working


def test_what_is_not_a_function_is_refused() -> None:
    with pytest.raises(ConfigError, match="on_statistics is 'print', but must be a function"):
        blocking.Producer(bootstrap_servers="127.0.0.1:1", on_statistics="print")
