"""Steps before a record is sent: its partition, its timestamp, and the wait for buffer space."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest

from kohort import ErrorCode, KafkaError
from kohort.client import BufferFullError, ConcurrentUseError, InvalidRecordError
from kohort.client.options import ProducerOptions
from kohort.client.produce.producer import producer_options
from kohort.client.produce.producer_core import ProducerCore
from kohort.errors import ConfigError
from kohort.wire.messages.metadata import MetadataResponse
from tests.client.producing import METADATA, NOWHERE, append, producing

# Options


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"enable_idempotence": True, "acks": "all"}, True),
        ({"enable_idempotence": True, "acks": 1}, False),
        ({"enable_idempotence": False, "acks": 1}, True),
        ({"acks": 1}, True),
        ({}, True),
    ],
)
def test_idempotence_that_is_asked_for_needs_all_acknowledgements(options: Any, allowed: bool) -> None:
    given: Any = {"bootstrap_servers": NOWHERE, **options}
    if allowed:
        producer_options(given)
    else:
        with pytest.raises(ConfigError, match="enable_idempotence needs acks=all"):
            producer_options(given)


# Records


async def test_a_record_goes_to_its_partition_with_its_time_or_the_present() -> None:
    async with producing() as here, here.producer() as producer:
        before = time.time_ns() // 1_000_000
        given, now = await producer.send("t", b"a", partition=1, timestamp=7), await producer.send("t", b"b", key=b"k")
        keys = [b"%d" % n for n in range(10)]
        first = [(await (await producer.send("t", b"c", key=key))).partition for key in keys]
        again = [(await (await producer.send("t", b"c", key=key))).partition for key in reversed(keys)]
        loose = [await producer.send("t", b"x" * 20_000) for _ in range(40)]
        assert (await given).partition == 1
        assert (await now).partition in (0, 1)
        assert again[::-1] == first and set(first) == {0, 1}
        assert {(await delivery).partition for delivery in loose} == {0, 1}
        times = {record.value: record.timestamp for _, record in here.records}
        assert times[b"a"] == 7
        assert before <= times[b"b"] <= time.time_ns() // 1_000_000


async def test_a_record_is_checked_before_it_is_queued() -> None:
    async with producing() as here, here.producer(max_request_size=1_000) as producer:
        await producer.partitions_for("t")
        wrong: list[tuple[type[Exception], dict[str, Any]]] = [
            (InvalidRecordError, {"value": "text"}),
            (ConfigError, {"value": b"x", "timestamp": -1}),
            (KafkaError, {"value": b"x", "partition": 2}),
            (KafkaError, {"value": bytes(1_000)}),
        ]
        for error, record in wrong:
            with pytest.raises(error):
                await producer.send("t", **record)
            with pytest.raises(error):
                producer.send_nowait("t", **record)
        assert producer._core.unwritten() == 0
        assert (await producer.send_nowait("t", b"x", timestamp=7)).offset == 0


async def test_a_record_that_can_never_be_sent_is_refused_without_a_topic() -> None:
    core = ProducerCore(ProducerOptions.read({"bootstrap_servers": NOWHERE, "max_request_size": 1_000}))
    core.check_size(500)
    with pytest.raises(KafkaError) as raised:
        core.check_size(1_000)
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    await core.close(None)


async def test_what_cannot_be_queued_at_once_waits_only_where_it_may() -> None:
    async with producing() as here, here.producer(buffer_memory=2_000, max_request_size=1_500) as producer:
        with pytest.raises(BufferFullError, match=re.escape("await ready('t') first")):
            producer.send_nowait("t", b"x")
        await producer.ready("t")
        here.hold()
        sent = [producer.send_nowait("t", b"x" * 900) for _ in range(2)]
        with pytest.raises(BufferFullError):
            producer.send_nowait("t", b"x" * 900)
        more = asyncio.ensure_future(producer.send("t", b"y" * 900))
        await asyncio.sleep(0)
        assert not more.done()
        here.release()
        assert {(await delivery).partition for delivery in [*sent, await more]} <= {0, 1}


async def test_many_sends_leave_the_loop_some_time_now_and_then() -> None:
    async with producing() as here, here.producer(linger_ms=60_000) as producer:
        await producer.ready("t")
        loop, ran = asyncio.get_running_loop(), 0

        def run() -> None:
            nonlocal ran
            ran += 1

        began = loop.time()
        for expected in range(1, 4):
            loop.call_soon(run)
            for _ in range(999):
                await producer.send("t", b"x", partition=0)
            assert ran == expected - 1
            await producer.send("t", b"x", partition=0)
            assert ran == expected
        assert loop.time() - began < 2.5


async def test_several_records_are_sent_with_what_they_have() -> None:
    async with producing() as here, here.producer() as producer:
        sent = await producer.send_all("t", [(b"k", b"a", 5), (None, b"b", None)])
        await asyncio.gather(*sent)
        assert sorted((record.value, record.key) for _, record in here.records) == [(b"a", b"k"), (b"b", None)]


# Waiting for a topic or for room


async def test_the_wait_for_room_ends_after_max_block_ms() -> None:
    async with producing() as here:
        core = here.core(buffer_memory=2_000, max_request_size=2_000, max_block_ms=250)
        await core.ready("t")
        here.hold()
        append(core, bytes(1_800))
        with pytest.raises(KafkaError, match="no room for a record to t within max_block_ms") as raised:
            await core.ready("t")
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        here.release()
        await core.flush(None)
        await core.ready("t")
        await core.close(None)


async def test_a_topic_that_the_brokers_refuse_is_the_reason() -> None:
    async with producing() as here:
        core = here.core(max_block_ms=250)
        with pytest.raises(KafkaError) as raised:
            await core.ready("missing")
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await core.close(None)


async def test_the_error_of_the_last_request_is_the_reason() -> None:
    options = {"bootstrap_servers": NOWHERE, "max_block_ms": 150, "retry_backoff_ms": 10, "retry_backoff_max_ms": 10}
    core = ProducerCore(ProducerOptions.read(options))
    with pytest.raises(KafkaError) as raised:
        await core.ready("t")
    assert raised.value.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)
    assert core.cluster.problem is not None and core.cluster.problem.sentence in str(raised.value)
    await core.close(None)


async def test_without_any_answer_that_is_the_reason() -> None:
    async with producing() as here:
        core = here.core(max_block_ms=250)
        here.link.held[METADATA] = asyncio.Event()
        with pytest.raises(KafkaError, match="t were not found within max_block_ms: no broker answered in time"):
            await core.ready("t")
        await core.close(None)


async def test_the_last_refusal_is_the_reason_although_the_next_answer_is_late() -> None:
    def once(answer: MetadataResponse, client: str | None) -> None:
        here.link.held[METADATA] = asyncio.Event()

    async with producing() as here:
        core = here.core(max_block_ms=250)
        here.link.change[METADATA] = once
        with pytest.raises(KafkaError, match="missing: ") as raised:
            await core.ready("missing")
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await core.close(None)


async def test_a_producer_belongs_to_its_loop() -> None:
    async with producing() as here:
        core = here.core()
        waits = (core.ready("t"), core.partitions_for("t"), core.flush(None), core.close(None))
        for wait in waits:
            with pytest.raises(ConcurrentUseError):
                await asyncio.to_thread(asyncio.run, wait)
        assert not core.closed
        await core.close(None)
