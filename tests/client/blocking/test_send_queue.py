"""Records on their way from the threads that send them to the event loop: in order, and none without an end."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kohort import ErrorCode, KafkaError
from kohort.client import DeliveryFailedError
from kohort.client.blocking.send_queue import PendingDelivery, SendQueue
from kohort.client.produce import unclosed
from tests.client.conftest import eventually
from tests.client.producing import METADATA, PRODUCE, Producing, producing, tasks


@asynccontextmanager
async def sending(**options: Any) -> AsyncIterator[tuple[Producing, SendQueue]]:
    async with producing() as here:
        queue = SendQueue(here.core(keep=False, **options))
        yield here, queue
        if PRODUCE in here.link.held:
            here.release()
        await queue.close(0.0)


def put(queue: SendQueue, value: bytes = b"x", *, topic: str = "t", partition: int | None = 0) -> PendingDelivery:
    """Send a record as a thread does."""
    pending = PendingDelivery()
    queue.put((pending, topic, value, None, 7, (), partition, len(value) + 24))
    return pending


def hold_metadata(here: Producing) -> None:
    here.link.held[METADATA] = asyncio.Event()


def release_metadata(here: Producing) -> None:
    here.link.held.pop(METADATA).set()


# Records


async def test_records_are_written_in_the_order_in_which_they_were_sent() -> None:
    async with sending() as (here, queue):
        sent = [put(queue, b"%d" % n) for n in range(3)]
        assert len(queue) == queue.unwritten() == 3
        assert not any(delivery.done() for delivery in sent)
        found = [await queue.decided(delivery) for delivery in sent]
        assert [(metadata.topic, metadata.partition, metadata.offset) for metadata in found] == [
            ("t", 0, 0),
            ("t", 0, 1),
            ("t", 0, 2),
        ]
        assert all(delivery.done() for delivery in sent) and sent[1].outcome() == found[1]
        assert len(queue) == queue.unwritten() == 0
        assert [(record.value, record.timestamp) for _, record in here.records] == [(b"0", 7), (b"1", 7), (b"2", 7)]


async def test_a_record_that_is_sent_later_is_written_without_anybody_waiting_for_it() -> None:
    async with sending() as (here, queue):
        for count in range(1, 4):
            put(queue)
            await eventually(lambda count=count: len(here.records) == count)  # type: ignore[misc]


async def test_waiting_ends_when_the_records_sent_before_are_queued() -> None:
    async with sending() as (here, queue):
        await queue.done()
        hold_metadata(here)
        first = put(queue)
        waiting = [asyncio.ensure_future(queue.done()) for _ in range(2)]
        await eventually(lambda: here.link.asked[METADATA] > 0)
        assert not any(delivery.done() for delivery in waiting)
        assert queue.unwritten() == 1  # those that wait are no records
        release_metadata(here)
        await asyncio.gather(*waiting)
        assert first.delivery is not None


async def test_a_record_that_is_queued_is_not_done_before_it_is_written() -> None:
    async with sending() as (here, queue):
        here.hold()
        sent = put(queue)
        await queue.done()
        assert not sent.done()
        here.release()
        await queue.decided(sent)
        assert sent.done()


async def test_the_result_of_a_record_does_not_wait_for_the_topics_of_others() -> None:
    async with sending(max_block_ms=50) as (here, queue):
        written, failed = put(queue), put(queue, topic="missing")
        await queue.done()
        hold_metadata(here)
        put(queue, topic="u")
        results = [asyncio.ensure_future(queue.decided(delivery)) for delivery in (written, failed)]
        await results[0]
        for _ in range(3):
            await asyncio.sleep(0)
        assert results[1].done() and len(queue) == 1
        release_metadata(here)
        await asyncio.wait(results)
        assert isinstance(results[1].exception(), KafkaError)


async def test_a_waiter_that_gave_up_holds_up_no_record() -> None:
    async with sending() as (here, queue):
        hold_metadata(here)
        put(queue)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await queue.done()
        last = put(queue)
        release_metadata(here)
        assert (await queue.decided(last)).offset == 1


async def test_many_records_leave_the_loop_some_time_now_and_then() -> None:
    async with sending(linger_ms=60_000) as (_, queue):
        await queue._core.ready("t")
        for _ in range(2_500):
            put(queue)
        left: list[int] = []

        def look() -> None:
            left.append(len(queue))
            if left[-1]:
                asyncio.get_running_loop().call_soon(look)

        look()
        async with asyncio.timeout(2):
            await queue.done()
        assert left[0] == 2_500 and {2_000, 1_000} <= set(left)


# Errors


async def test_a_topic_that_is_not_found_costs_its_records_one_wait_and_those_of_others_none() -> None:
    async with sending(max_block_ms=100) as (_, queue):
        loop = asyncio.get_running_loop()
        began = loop.time()
        missing = [put(queue, topic="missing") for _ in range(50)]
        other = put(queue)
        missing += [put(queue, topic="missing")]
        assert (await queue.decided(other)).offset == 0
        for delivery in missing:
            with pytest.raises(KafkaError) as raised:
                await queue.decided(delivery)
            assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert loop.time() - began < 4.0
        await queue.flush(None)  # every error was seen


async def test_the_records_of_a_refused_topic_fail_one_by_one() -> None:
    async with sending(max_block_ms=50) as (_, queue):
        seen, _, _ = (put(queue, topic="missing") for _ in range(3))
        with pytest.raises(KafkaError):
            await queue.decided(seen)
        with pytest.raises(KafkaError):
            seen.outcome()
        with pytest.raises(DeliveryFailedError, match=r"2 records .* to missing"):
            await queue.flush(None)


async def test_a_record_without_room_fails_and_the_next_one_is_tried() -> None:
    async with sending(buffer_memory=2_000, max_request_size=1_500) as (here, queue):
        await queue._core.ready("t")
        queue._core._options = dataclasses.replace(queue._core._options, max_block_ms=50)  # only room is waited for
        here.hold()
        first, second, third = (put(queue, b"x" * 900) for _ in range(3))
        with pytest.raises(KafkaError, match="no room for a record"):
            await queue.decided(third)
        put(queue, b"x" * 900)
        await queue.done()
        fifth = put(queue, b"y")
        here.release()
        assert [(await queue.decided(delivery)).offset for delivery in (first, second, fifth)] == [0, 1, 2]
        with pytest.raises(DeliveryFailedError, match="1 record"):  # the one that the application did not check
            await queue.flush(None)


async def test_a_wrong_record_fails_alone() -> None:
    async with sending() as (_, queue):
        before, wrong, after = put(queue), put(queue, partition=77), put(queue)
        with pytest.raises(KafkaError, match="77"):
            await queue.decided(wrong)
        assert wrong.done()
        assert [(await queue.decided(delivery)).offset for delivery in (before, after)] == [0, 1]
        put(queue, partition=78)
        with pytest.raises(DeliveryFailedError, match="1 record"):
            await queue.flush(None)


# Flushing, closing, and the end of the process


async def test_a_flush_waits_for_what_is_not_queued_yet_and_for_what_is_not_written_yet() -> None:
    async with sending() as (here, queue):
        sent = put(queue)
        await queue.flush(4.0)
        assert sent.done()
        again = put(queue)
        await queue.flush(None)
        assert again.done()
        here.hold()
        put(queue)
        async with asyncio.timeout(4):
            with pytest.raises(KafkaError, match=r"1 records are not written after 0\.02 s; the producer still tries"):
                await queue.flush(0.02)


async def test_a_flush_of_records_whose_topic_is_not_found_ends_in_time() -> None:
    async with sending() as (here, queue):
        hold_metadata(here)
        sent = [put(queue) for _ in range(2)]
        async with asyncio.timeout(4):
            with pytest.raises(KafkaError, match=r"2 records are not written after 0\.02 s") as raised:
                await queue.flush(0.02)
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        release_metadata(here)
        assert [(await queue.decided(delivery)).offset for delivery in sent] == [0, 1]


@pytest.mark.parametrize("timeout_s", [None, 4.0])
async def test_closing_writes_what_was_sent(timeout_s: float | None) -> None:
    async with sending() as (here, queue):
        sent = [put(queue) for _ in range(3)]
        assert queue in unclosed._open
        await queue.close(timeout_s)
        assert len(here.records) == 3 and all(delivery.done() for delivery in sent)
        assert queue._core.closed and queue not in unclosed._open


async def test_closing_in_time_fails_what_is_not_queued_or_not_written() -> None:
    async with sending() as (here, queue):
        here.hold()
        under_way = put(queue)
        await queue.done()
        put(queue, topic="u")
        hold_metadata(here)
        waiting = asyncio.ensure_future(queue.done())
        await asyncio.sleep(0)
        left = put(queue, topic="u")
        async with asyncio.timeout(4):
            await queue.close(0.05)
            await waiting
        with pytest.raises(KafkaError, match="the producer was closed before the record was written") as raised:
            left.outcome()
        assert raised.value.code is ErrorCode.OPERATION_NOT_ATTEMPTED
        assert under_way.done()
        with pytest.raises(KafkaError):
            under_way.outcome()
        assert not tasks("kohort-hand-over")
        async with asyncio.timeout(4):
            await queue.done()  # as a thread does that flushes meanwhile


async def test_the_end_of_the_process_writes_what_it_can_and_counts_the_rest() -> None:
    async with sending() as (here, queue):
        put(queue)
        assert await queue.finish(4.0) == 0
        assert len(here.records) == 1
        assert queue not in unclosed._open
        assert await queue.finish(4.0) == 0
    async with sending() as (here, queue):
        here.hold()
        put(queue)
        await queue.done()
        hold_metadata(here)
        left = [put(queue, topic="u") for _ in range(2)]
        assert queue.unwritten() == 3
        async with asyncio.timeout(4):
            assert await queue.finish(0.05) == 3
        assert all(delivery.done() for delivery in left)
        assert await queue.finish(0.05) == 0
