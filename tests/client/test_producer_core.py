"""A producer between its records and its sender: choosing partitions, waiting for room, flushing and closing."""

from __future__ import annotations

import asyncio
import gc
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kohort import ErrorCode, KafkaError, Producer
from kohort.broker import Broker
from kohort.client import BufferFullError, ClosedError, ConcurrentUseError, DeliveryFailedError, InvalidRecordError
from kohort.client.options import ProducerOptions, read_options
from kohort.client.produce import unclosed
from kohort.client.produce.batches import Delivery
from kohort.client.produce.producer import producer_options
from kohort.client.produce.producer_core import ProducerCore
from kohort.errors import ConfigError
from kohort.wire.batches.records import Record, batches, decode_records
from kohort.wire.messages.metadata import MetadataResponse
from kohort.wire.messages.produce import ProduceRequest, ProduceResponse
from tests.client.conftest import eventually
from tests.client.link import Link, linked_broker

PRODUCE, METADATA = 0, 3
NOWHERE = "127.0.0.1:1"


@dataclass
class Producing:
    """A broker with the topic t, of two partitions, and what it is sent."""

    broker: Broker
    link: Link
    options: dict[str, Any]
    records: list[tuple[int, Record]] = field(default_factory=list)
    """Partition and record."""

    def watch(self, request: ProduceRequest) -> None:
        for one in request.topic_data[0].partition_data:
            assert one.records is not None
            data = bytes(one.records)
            for at, _ in batches(data):
                self.records += [(one.index, record) for record in decode_records(data, at)]

    def refuse(self, code: ErrorCode) -> None:
        def change(answer: ProduceResponse, client: str | None) -> None:
            for one in answer.responses[0].partition_responses:
                one.error_code, one.base_offset = code, -1

        self.link.change[PRODUCE] = change

    def hold(self) -> None:
        self.link.held[PRODUCE] = asyncio.Event()

    def release(self) -> None:
        self.link.held.pop(PRODUCE).set()

    def producer(self, **options: Any) -> Producer:
        return Producer(**{**self.options, **options})

    def core(self, *, keep: bool = True, **options: Any) -> ProducerCore:
        return ProducerCore(read_options(ProducerOptions, {**self.options, **options}), keep=keep)


@asynccontextmanager
async def producing() -> AsyncIterator[Producing]:
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 2)
        quick = {"linger_ms": 0, "retry_backoff_ms": 10, "allow_auto_create_topics": False}
        here = Producing(broker, link, {"bootstrap_servers": f"127.0.0.1:{link.port}", **quick})
        link.watch[PRODUCE] = here.watch
        yield here


def append(core: ProducerCore, value: bytes = b"x", *, partition: int = 0) -> Delivery:
    return core.append("t", value, None, None, (), partition, len(value) + 24)


def tasks(name: str) -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == name]


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
        keyed = [await producer.send("t", b"c", key=b"k") for _ in range(20)]
        loose = [await producer.send("t", b"x" * 20_000) for _ in range(40)]
        assert (await given).partition == 1
        assert {(await one).partition for one in keyed} == {(await now).partition}
        assert {(await one).partition for one in loose} == {0, 1}
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
    core = ProducerCore(read_options(ProducerOptions, {"bootstrap_servers": NOWHERE, "max_request_size": 1_000}))
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
        assert {(await one).partition for one in [*sent, await more]} <= {0, 1}


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
            for _ in range(1_000):
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
    core = ProducerCore(read_options(ProducerOptions, options))
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


# Flushing and closing


async def test_a_flush_waits_and_then_raises_what_failed_unseen() -> None:
    async with producing() as here, here.producer(linger_ms=60_000) as producer:
        held = await producer.send("t", b"x")
        await producer.flush()
        assert (await held).offset == 0
        here.refuse(ErrorCode.MESSAGE_TOO_LARGE)
        held = await producer.send("t", b"x")
        with pytest.raises(DeliveryFailedError, match="1 record was not written"):
            await producer.flush(timeout=10)
        await producer.flush()
        assert held.done()


async def test_a_flush_may_be_limited_and_leaves_the_records_where_they_are() -> None:
    async with producing() as here, here.producer() as producer:
        here.hold()
        sent = await producer.send("t", b"x")
        with pytest.raises(KafkaError, match=r"1 records are not written after 0\.02 s") as raised:
            await producer.flush(timeout=0.02)
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        for wait in (producer.flush(timeout=-1), producer.close(timeout=-1)):
            with pytest.raises(ConfigError, match="timeout"):
                await wait
        here.release()
        assert (await sent).offset == 0


async def test_closing_writes_what_there_is_and_ends_everything() -> None:
    async with producing() as here:
        producer = here.producer(linger_ms=60_000)
        sent = await producer.send("t", b"x")
        await producer.close()
        assert (await sent).offset == 0
        assert producer.cluster.connections == []
        await producer.close()
        for wait in (producer.ready("t"), producer.partitions_for("t"), producer.send("u", b"x")):
            with pytest.raises(ClosedError):
                await wait


async def test_closing_may_be_limited_and_what_is_left_fails(caplog: pytest.LogCaptureFixture) -> None:
    async with producing() as here:
        here.hold()
        producer = here.producer()
        sent = await producer.send("t", b"x")
        await producer.close(timeout=0.02)
        with pytest.raises(KafkaError) as raised:
            await sent
        assert raised.value.code is ErrorCode.OPERATION_NOT_ATTEMPTED
        assert producer.cluster.connections == []
    assert not caplog.records


async def test_an_error_in_the_block_does_not_wait_for_records_and_no_error_does() -> None:
    async with producing() as here:
        async with asyncio.timeout(10):
            with pytest.raises(ZeroDivisionError):
                async with here.producer(linger_ms=60_000) as producer:
                    lost = await producer.send("t", b"x")
                    raise ZeroDivisionError
            with pytest.raises(KafkaError):
                await lost
            async with here.producer(linger_ms=60_000) as producer:
                written = await producer.send("t", b"x")
            assert (await written).offset == 0


async def test_closing_that_is_cancelled_ends_everything_all_the_same() -> None:
    async with producing() as here:
        here.hold()
        producer = here.producer()
        await producer.send("t", b"x")
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert producer.cluster.connections == []


# Producers that nobody closes


async def test_a_producer_is_remembered_from_its_first_topic_until_it_is_closed() -> None:
    async with producing() as here:
        for use in ("ready", "partitions_for"):
            core = here.core()
            assert core not in unclosed._open
            for _ in range(2):
                await getattr(core, use)("t")
            assert core in unclosed._open
            assert len(tasks("kohort-unclosed-producer")) == 1
            await core.close(None)
            assert core not in unclosed._open
            assert not tasks("kohort-unclosed-producer")


async def test_a_producer_that_is_kept_by_another_thread_is_not_remembered() -> None:
    async with producing() as here:
        core = here.core(keep=False)
        await core.ready("t")
        assert core not in unclosed._open
        assert not tasks("kohort-unclosed-producer")
        await core.close(None)


async def test_finishing_writes_what_there_is_and_tells_what_is_lost() -> None:
    async with producing() as here:
        for lost in (0, 1):
            core = here.core(linger_ms=60_000)
            await core.ready("t")
            delivery = append(core)
            if lost:
                here.hold()
            assert await core.finish(0.05 if lost else 10.0) == lost
            assert core.closed and core.cluster.connections == []
            assert (delivery._batch.failure is not None) == bool(lost)
            assert await core.finish(10.0) == 0


async def test_what_finishing_loses_is_not_logged_beside_its_number(caplog: pytest.LogCaptureFixture) -> None:
    async with producing() as here:
        core = here.core()
        await core.ready("t")
        here.hold()
        append(core)
        assert await core.finish(0.01) == 1
        gc.collect()
    assert not caplog.records


async def test_at_the_end_of_the_loop_what_there_is_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    async with producing() as here:
        core = here.core(linger_ms=60_000)
        await core.ready("t")
        delivery = append(core)
        (keeper,) = tasks("kohort-unclosed-producer")
        keeper.cancel()  # as `asyncio.run` does
        await keeper
        assert (delivery.result().offset, core.closed) == (0, True)
        assert core not in unclosed._open
    assert capsys.readouterr().err == ""


async def test_at_the_end_of_the_loop_what_is_lost_is_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unclosed, "FINISH_TIMEOUT_S", 0.02)
    async with producing() as here:
        core = here.core()
        await core.ready("t")
        here.hold()
        append(core)
        (keeper,) = tasks("kohort-unclosed-producer")
        keeper.cancel()
        await keeper
    assert capsys.readouterr().err.startswith("kohort: 1 record was not written, because the producer was not closed")


async def test_a_producer_that_is_dropped_warns_and_writes_what_it_has() -> None:
    async with producing() as here:
        producer = here.producer(linger_ms=60_000)
        sent = await producer.send("t", b"x")
        with pytest.warns(ResourceWarning, match="unclosed <kohort.client.produce.producer.Producer"):
            del producer
            gc.collect()
        assert (await sent).offset == 0
        await eventually(lambda: not tasks("kohort-unclosed-producer"))


@pytest.mark.filterwarnings("error::ResourceWarning", "error::pytest.PytestUnraisableExceptionWarning")
async def test_a_producer_that_is_closed_or_was_never_made_is_dropped_without_a_word() -> None:
    async with producing() as here, here.producer() as producer:
        await producer.ready("t")
    del producer
    with pytest.raises(ConfigError):
        Producer(bootstrap_servers=NOWHERE, acks=7)
    gc.collect()
