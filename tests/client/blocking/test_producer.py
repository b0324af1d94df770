"""The blocking producer, used by a thread: what it checks at once, what it copies, and how long it waits."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from kohort import ErrorCode, KafkaError
from kohort.blocking import Producer
from kohort.client import ClosedError, ConfigError, DeliveryFailedError, InvalidRecordError
from kohort.client.blocking import producer as blocking_producer
from kohort.client.produce import unclosed
from tests.client.conftest import eventually
from tests.client.producing import METADATA, PRODUCE, Producing, producing

_T = TypeVar("_T")


async def in_thread(work: Callable[[], _T]) -> _T:
    async with asyncio.timeout(20):
        return await asyncio.to_thread(work)


@asynccontextmanager
async def sending(**options: Any) -> AsyncIterator[tuple[Producing, Producer]]:
    async with producing() as here:
        producer = Producer(**{**here.options, **options})
        yield here, producer
        for key in (PRODUCE, METADATA):
            if key in here.link.held:
                here.link.held.pop(key).set()
        await in_thread(lambda: producer.close(timeout=0.0))


async def test_a_record_is_written_as_it_was_when_it_was_sent() -> None:
    async with sending() as (here, producer):
        value, key, headers = bytearray(b"value"), bytearray(b"key"), [("h", b"x")]
        given: Any = {"value": value, "key": key}
        here.link.held[METADATA] = asyncio.Event()
        sent = producer.send("t", **given, headers=headers, timestamp=7, partition=1)
        value[:], key[:] = b"other", b"xxx"
        headers.clear()
        here.link.held.pop(METADATA).set()
        found = await in_thread(sent.result)
        assert (found.topic, found.partition, found.offset) == ("t", 1, 0)
        (partition, record) = here.records[0]
        assert (partition, record.timestamp, record.key, record.value) == (1, 7, b"key", b"value")
        assert [tuple(header) for header in record.headers] == [("h", b"x")]


async def test_a_record_without_a_time_has_that_at_which_it_was_sent() -> None:
    async with sending() as (here, producer):
        before = time.time_ns() // 1_000_000
        sent = producer.send("t", None)
        after = time.time_ns() // 1_000_000
        await in_thread(sent.result)
        ((_, record),) = here.records
        assert before <= record.timestamp <= after and (record.key, record.value) == (None, None)


async def test_what_can_be_known_at_once_is_raised_at_once() -> None:
    async with sending(max_request_size=1_000) as (_, producer):
        wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
            (InvalidRecordError, "t", {"value": "text"}),
            (KafkaError, "t", {"value": bytes(1_000)}),
            (ConfigError, "t", {"value": b"x", "timestamp": -1}),
            (ConfigError, "", {"value": b"x"}),
            (ConfigError, 7, {"value": b"x"}),  # type: ignore[list-item]
            (ConfigError, "t", {"value": b"x", "partition": -1}),
        ]
        for error, topic, record in wrong:
            with pytest.raises(error):
                producer.send(topic, **record)
        later = producer.send("t", b"x", partition=77)  # nobody knows how many there are
        with pytest.raises(KafkaError, match="77"):
            await in_thread(later.result)
        assert await in_thread(lambda: producer.partitions_for("t")) == 2
        with pytest.raises(KafkaError, match="77"):
            producer.send("t", b"x", partition=77)
        await in_thread(producer.flush)


async def test_a_result_may_be_waited_for_in_vain_and_again() -> None:
    async with sending() as (here, producer):
        here.hold()
        sent = producer.send("t", b"x")
        with pytest.raises(KafkaError, match=r"neither written nor failed after 0\.02 s; it may still") as raised:
            await in_thread(lambda: sent.result(0.02))
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT and not sent.done()
        with pytest.raises(ConfigError):
            sent.result(-1.0)
        here.release()
        assert (await in_thread(sent.result)).offset == 0
        await in_thread(producer.close)
        assert sent.done() and sent.result().offset == 0


async def test_a_flush_is_as_long_as_it_is_told_and_raises_what_failed() -> None:
    async with sending(retry_backoff_ms=1, delivery_timeout_ms=30_100) as (here, producer):
        here.hold()
        producer.send("t", b"x")
        with pytest.raises(KafkaError, match=r"after 0\.02 s"):
            await in_thread(lambda: producer.flush(timeout=0.02))
        here.release()
        await in_thread(producer.flush)
        assert len(here.records) == 1
        here.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        producer.send("t", b"x")
        with pytest.raises(DeliveryFailedError):
            await in_thread(producer.flush)


async def test_a_thread_that_is_far_ahead_of_the_loop_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking_producer, "_MOST_HANDED_OVER", 10)
    async with sending() as (here, producer):
        here.link.held[METADATA] = asyncio.Event()
        sent = 0

        def send() -> None:
            nonlocal sent
            for _ in range(30):
                producer.send("t", b"x")
                sent += 1

        sending_all = asyncio.ensure_future(in_thread(send))
        await eventually(lambda: sent == 10 and here.link.asked[METADATA] > 0)
        assert await in_thread(lambda: sent) == 10
        assert not sending_all.done()
        here.link.held.pop(METADATA).set()
        await sending_all
        await in_thread(producer.flush)
        assert len(here.records) == 30


async def test_closing_writes_what_was_sent_and_ends_the_thread() -> None:
    async with sending() as (here, producer):
        sent = [producer.send("t", b"x") for _ in range(3)]
        await in_thread(producer.close)
        await in_thread(producer.close)
        assert len(here.records) == 3 and all(delivery.done() for delivery in sent)
        assert "kohort-producer" not in [thread.name for thread in threading.enumerate()]
        with pytest.raises(ClosedError):
            producer.send("t", b"x")
        with pytest.raises(ClosedError):
            producer.flush()


async def test_a_block_that_ends_with_an_error_does_not_wait_for_records() -> None:
    async with producing() as here:
        here.hold()

        def block(error: bool) -> None:
            with Producer(**here.options) as producer:
                sent.append(producer.send("t", b"x"))
                if error:
                    raise ZeroDivisionError

        sent: list[blocking_producer.BlockingDelivery] = []
        with pytest.raises(ZeroDivisionError):
            await in_thread(lambda: block(True))
        with pytest.raises(KafkaError):
            sent[0].result()
        waiting = asyncio.ensure_future(in_thread(lambda: block(False)))
        await eventually(lambda: len(here.records) > 0)
        assert not waiting.done()
        here.release()
        await waiting
        assert sent[1].result().topic == "t"


async def test_a_producer_that_cannot_be_made_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object, **options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(blocking_producer, "ProducerCore", broken)
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: Producer(bootstrap_servers="127.0.0.1:1"))
    assert "kohort-producer" not in [thread.name for thread in threading.enumerate()]


async def test_a_producer_that_is_dropped_warns_writes_what_it_has_and_ends_its_thread() -> None:
    async with producing() as here:

        def drop() -> None:
            producer = Producer(**here.options)
            producer.send("t", b"x").result()
            assert producer._records in unclosed._open and producer._core not in unclosed._open  # counted once
            producer.send("t", b"y")
            with pytest.warns(ResourceWarning, match="unclosed"):
                del producer
                gc.collect()

        await in_thread(drop)
        await eventually(lambda: [record.value for _, record in here.records] == [b"x", b"y"])
        await eventually(lambda: "kohort-producer" not in [thread.name for thread in threading.enumerate()])


async def test_callbacks_run_when_the_record_is_written_and_at_once_after_that() -> None:
    async with sending() as (here, producer):
        here.link.held[METADATA] = asyncio.Event()
        seen: list[tuple[str, int]] = []
        sent = producer.send("t", b"v", partition=1)
        for name in ("first", "second"):  # while the record waits for metadata
            sent.add_done_callback(lambda delivery, name=name: seen.append((name, delivery.result().offset)))  # type: ignore[misc]
        await eventually(lambda: len(producer._records) == 1)
        assert not seen
        here.link.held.pop(METADATA).set()
        await in_thread(producer.flush)
        assert seen == [("first", 0), ("second", 0)] and not sent.failed()
        sent.add_done_callback(lambda delivery: seen.append(("late", threading.get_ident())))
        assert seen[2] == ("late", threading.get_ident())


async def test_a_callback_that_asks_whether_a_record_failed_does_not_hide_the_failure() -> None:
    async with sending(max_block_ms=50) as (here, producer):
        here.link.held[METADATA] = asyncio.Event()
        seen: list[bool] = []
        sent = producer.send("t", b"v")
        sent.add_done_callback(lambda delivery: seen.append(delivery.failed()))
        await eventually(lambda: sent.done() and bool(seen))
        assert seen == [True] and sent.failed()
        with pytest.raises(DeliveryFailedError):
            await in_thread(producer.flush)


async def test_the_records_of_each_thread_keep_their_order_and_get_their_own_offsets() -> None:
    # Small batches and a small buffer, so that threads open batches, fill requests and wait for room all the time.
    async with sending(batch_size=300, buffer_memory=4_000, max_request_size=1_000) as (here, producer):
        count = 400
        sent: dict[int, list[tuple[bytes, Any]]] = {number: [] for number in range(3)}

        def send(number: int) -> None:
            for n in range(count):
                value = b"%d %d" % (number, n)
                key = None if n % 3 else b"%d" % number
                headers = [("n", value)] if not n % 7 else []
                sent[number].append((value, producer.send("t", value, key=key, headers=headers, partition=n % 2)))

        await asyncio.gather(*(in_thread(lambda number=number: send(number)) for number in sent))  # type: ignore[misc]
        await in_thread(producer.flush)
        written = {partition: [record.value for at, record in here.records if at == partition] for partition in (0, 1)}
        assert sorted(map(len, written.values())) == [3 * count / 2] * 2
        for number, deliveries in sent.items():
            for value, delivery in deliveries:
                found = delivery.result()
                assert written[found.partition][found.offset] == value
            for values in written.values():
                own = [value for value in values if value is not None and value.startswith(b"%d " % number)]
                assert own == [value for value, _ in deliveries if value in set(own)]


async def test_a_value_that_changes_after_it_was_sent_is_written_as_it_was() -> None:
    async with sending(linger_ms=60_000) as (here, producer):
        await in_thread(lambda: producer.partitions_for("t"))
        value, key = bytearray(b"value"), bytearray(b"key")
        given: Any = {"value": value, "key": key}
        sent = [producer.send("t", **given, partition=0) for _ in range(2)]
        value[:], key[:] = b"other", b"xxx"
        await in_thread(producer.flush)
        assert [(record.key, record.value) for _, record in here.records] == [(b"key", b"value")] * 2
        assert [delivery.result().offset for delivery in sent] == [0, 1]


async def test_a_batch_that_a_thread_opens_is_sent_after_linger_ms_without_a_flush() -> None:
    async with sending(linger_ms=20) as (here, producer):
        await in_thread(lambda: producer.partitions_for("t"))
        for count in (1, 2):
            sent = await in_thread(lambda: producer.send("t", b"x", partition=0))
            await eventually(lambda count=count: len(here.records) == count)  # type: ignore[misc]
            assert (await in_thread(sent.result)).offset == count - 1
