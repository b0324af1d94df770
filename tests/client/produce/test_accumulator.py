"""A producer's records until they are decided: what holds memory, and what is given back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kohort import KafkaError, TopicPartition
from kohort.client import ConcurrentUseError
from kohort.client.failures import BufferFullError, ClosedError
from kohort.client.options import ProducerOptions
from kohort.client.produce.accumulator import Accumulator
from kohort.client.produce.batches import Delivery, PartitionQueue
from kohort.client.produce.failed_deliveries import Failures
from kohort.errors import ErrorCode

_FREE = 10_000
_SIZE = 500
_GONE = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Case:
    """One accumulator, and one queue of it."""

    def __init__(self, **options: Any) -> None:
        given: dict[str, Any] = {"buffer_memory": _FREE, "batch_size": 2 * _SIZE, "max_request_size": 3 * _SIZE}
        given |= {"bootstrap_servers": "127.0.0.1:9092", "linger_ms": 1_000, "delivery_timeout_ms": 60_000, **options}
        self.full = 0
        self.due: list[float] = []
        self.gathered = Accumulator(ProducerOptions.read(given), Failures(), self._on_full, self.due.append)
        self.queue = PartitionQueue(TopicPartition("t", 0))

    def _on_full(self) -> None:
        self.full += 1

    def append(self, size: int = _SIZE, value: Any = bytes(_SIZE)) -> Delivery:
        return self.gathered.append(self.queue, 0, None, value, (), size)

    def send(self) -> None:
        self.queue.take(None)

    @property
    def taken(self) -> int:
        """Bytes of the buffer that are in use."""
        return _FREE - self.gathered.memory.free


async def test_a_batch_that_is_full_may_go_out_at_once_unless_another_is_under_way() -> None:
    case = Case()
    case.append()
    assert (case.full, len(case.due)) == (0, 1)
    case.append()
    assert (case.full, len(case.due)) == (1, 1)
    case.send()
    case.append()
    case.append()
    assert (case.full, len(case.due)) == (1, 2)


async def test_a_record_that_exceeds_the_request_begins_a_batch() -> None:
    case = Case()
    for _ in range(3):
        case.append()
    assert ([batch.count for batch in case.queue.waiting], case.queue.open and case.queue.open.count) == ([2], 1)
    assert (case.gathered.unwritten(), len(case.gathered.pending()), case.taken) == (3, 2, 3 * _SIZE)


async def test_a_batch_takes_records_up_to_the_very_limit() -> None:
    case = Case()
    case.append()
    assert case.queue.open is not None
    size = case.queue.open.filled
    exact = Case(batch_size=size, max_request_size=size + _SIZE)
    exact.append()
    assert exact.full == 1
    exact.append()
    assert [batch.count for batch in exact.queue.batches()] == [2]


async def test_a_batch_is_due_after_linger_ms_and_overdue_after_delivery_timeout_ms() -> None:
    case = Case(linger_ms=1_000_000, delivery_timeout_ms=2_000_000)
    before = asyncio.get_running_loop().time()
    case.append()
    after = asyncio.get_running_loop().time()
    [batch] = case.queue.batches()
    assert case.due == [batch.lingers_until]
    assert before + 1_000 <= batch.lingers_until <= after + 1_000
    assert before + 2_000 <= batch.deadline_at <= after + 2_000


async def test_each_record_of_a_batch_that_is_written_has_its_offset() -> None:
    case = Case()
    one, two = case.append(), case.append()
    case.send()
    case.gathered.succeed(case.queue, 7, 1234)
    assert one.result() == ("t", 0, 7, 1234)
    assert two.result() == ("t", 0, 8, 1234)


async def test_written_batches_return_their_memory_and_empty_queues_are_dropped() -> None:
    case = Case()
    for _ in range(3):
        case.append()
    case.send()
    case.gathered.succeed(case.queue, 7, None)
    assert (list(case.gathered.queues), case.taken) == ([case.queue], _SIZE)
    case.send()
    assert list(case.gathered.queues) == [case.queue]
    case.gathered.succeed(case.queue, 9, None)
    assert (list(case.gathered.queues), case.taken, case.gathered.unwritten()) == ([], 0, 0)


async def test_a_batch_that_waits_keeps_its_queue() -> None:
    case = Case()
    for _ in range(3):
        case.append()
    case.send()
    assert case.queue.open is not None
    case.queue.waiting.append(case.queue.open)
    case.queue.open = None
    case.gathered.succeed(case.queue, 7, None)
    assert list(case.gathered.queues) == [case.queue]


async def test_a_record_that_cannot_be_packed_leaves_nothing_behind() -> None:
    case = Case()
    with pytest.raises(TypeError):
        case.append(value="text")
    assert (case.queue.open, list(case.gathered.queues), case.taken) == (None, [], 0)
    kept = case.append()
    with pytest.raises(TypeError):
        case.append(value="text")
    assert (case.queue.batches(), case.taken) == ([kept._batch], _SIZE)


async def test_a_record_that_never_fits_is_distinguished_from_a_full_buffer() -> None:
    case = Case(max_request_size=_FREE)
    for too_large in (_FREE + 1, _FREE - 79):
        with pytest.raises(KafkaError) as refused:
            case.append(size=too_large)
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    case.append(size=_FREE - 80)
    with pytest.raises(BufferFullError):
        case.append()
    assert case.append(size=80)


async def test_expired_batches_are_removed_oldest_first() -> None:
    case = Case()
    assert case.gathered.overdue(case.queue, 1e9) == []
    for _ in range(3):
        case.append()
    first, second = case.queue.batches()
    first.deadline_at, second.deadline_at = 10, 20
    assert case.gathered.overdue(case.queue, 9) == []
    assert case.gathered.overdue(case.queue, 10) == [first]
    assert case.queue.open is second
    assert case.gathered.overdue(case.queue, 20) == [second]
    assert case.queue.batches() == []
    for batch in (first, second):
        case.gathered.fail(case.queue, batch, _GONE)
        with pytest.raises(KafkaError):
            batch.done.result()
    assert (list(case.gathered.queues), case.taken) == ([], 0)


async def test_all_that_waits_fails_and_what_is_under_way_does_not() -> None:
    case = Case()
    for _ in range(3):
        case.append()
    case.send()
    under_way, waiting = case.queue.batches()
    case.gathered.fail_all(case.queue, _GONE)
    assert (under_way.done.done(), waiting.done.done(), case.taken) == (False, True, 2 * _SIZE)
    assert list(case.gathered.queues) == [case.queue]
    case.gathered.succeed(case.queue, 7, None)
    assert (list(case.gathered.queues), case.taken) == ([], 0)
    case.append()
    case.gathered.fail_all(case.queue, _GONE)
    assert (list(case.gathered.queues), case.taken) == ([], 0)


@pytest.mark.parametrize("all_at_once", [True, False])
async def test_memory_that_is_given_back_wakes_a_task_that_waits_for_room(all_at_once: bool) -> None:
    case = Case(max_request_size=_FREE)
    lost = case.append(size=_FREE - 80)
    waiting = asyncio.create_task(case.gathered.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    if all_at_once:
        case.gathered.fail_all(case.queue, _GONE)
    else:
        case.gathered.fail(case.queue, case.queue.take_waiting()[0], _GONE)
    async with asyncio.timeout(5):
        await waiting
    with pytest.raises(KafkaError):
        lost.result()


async def test_a_record_of_more_than_a_quarter_of_the_buffer_waits_for_its_room() -> None:
    # With room for any smaller record, the wait would end at once, and the producer would try again forever.
    case = Case(max_request_size=_FREE)
    case.append(size=_FREE // 2)
    with pytest.raises(BufferFullError):
        case.append(size=_FREE - 80)
    waiting = asyncio.create_task(case.gathered.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    case.gathered.fail_all(case.queue, _GONE)
    async with asyncio.timeout(5):
        await waiting
    case.append(size=_FREE - 80)
    assert case.taken == _FREE - 80


async def test_a_record_that_never_fits_delays_no_other() -> None:
    case = Case(max_request_size=_FREE)
    case.append()
    with pytest.raises(KafkaError):
        case.append(size=_FREE + 1)
    async with asyncio.timeout(5):
        await case.gathered.room()


async def test_closing_fails_everything_and_takes_no_more() -> None:
    case = Case()
    for _ in range(3):
        case.append()
    case.send()
    batches = case.queue.batches()
    case.gathered.close()
    for batch in batches:
        with pytest.raises(KafkaError) as lost:
            batch.done.result()
        assert lost.value.code is ErrorCode.OPERATION_NOT_ATTEMPTED
    assert (list(case.gathered.queues), case.queue.batches()) == ([], [])
    with pytest.raises(ClosedError):
        case.append()


async def test_closing_ends_the_wait_for_room() -> None:
    case = Case(max_request_size=_FREE)
    case.append(size=_FREE - 80)
    waiting = asyncio.create_task(case.gathered.room())
    await asyncio.sleep(0)
    case.gathered.close()
    with pytest.raises(ClosedError):
        async with asyncio.timeout(5):
            await waiting


async def test_another_thread_is_refused() -> None:
    case = Case()
    with pytest.raises(ConcurrentUseError):
        await asyncio.to_thread(case.append)
