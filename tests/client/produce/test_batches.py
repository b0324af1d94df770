"""The batches of one partition: their order, their numbers, and what their deliveries tell."""

from __future__ import annotations

import asyncio
import gc

import pytest

from kohort import ErrorCode, KafkaError, TopicPartition
from kohort.client.produce.batches import NO_OFFSET, Batch, Delivery, PartitionQueue
from kohort.client.produce.failed_deliveries import Failure
from kohort.requests import ProducerId
from kohort.wire.batches import Codec, batches, decode_records

HERE = TopicPartition("t", 0)
SEVEN, EIGHT = ProducerId(7, 1), ProducerId(8, 2)
LAST_SEQUENCE = 0x7FFFFFFF


def batch(count: int = 1, lingers_until: float = 0.0) -> Batch:
    made = Batch(HERE, asyncio.get_running_loop())
    made.lingers_until, made.deadline_at = lingers_until, 10.0
    for n in range(count):
        made.builder.append(1_000 + n, None, b"%d" % n, ())
    made.filled = 61 + 100 * count
    return made


def queue(*waiting: Batch, newest: Batch | None = None) -> PartitionQueue:
    made = PartitionQueue(HERE)
    made.waiting.extend(waiting)
    made.open = newest
    return made


def ready(of: PartitionQueue, now: float = 5.0, *, flushing: bool = False, batch_size: int = 1_000) -> bool:
    return of.ready(now, flushing=flushing, batch_size=batch_size)


def failure_of(count: int) -> Failure:
    return Failure("t", count, KafkaError(ErrorCode.MESSAGE_TOO_LARGE), lambda dropped: None)


# When a batch may be sent


async def test_a_batch_that_waits_may_be_sent_unless_another_one_is_under_way() -> None:
    batches = queue(batch(), batch())
    assert ready(batches)
    batches.take(SEVEN)
    assert not ready(batches)
    assert not ready(PartitionQueue(HERE))


async def test_after_a_failure_nothing_is_sent_before_its_pause_is_over() -> None:
    batches = queue(batch())
    batches.retry_at = 5.0
    assert not ready(batches, 4.99)
    assert ready(batches, 5.0)


async def test_the_newest_batch_is_sent_when_it_has_lingered_or_is_full_or_is_flushed() -> None:
    batches = queue(newest=batch(lingers_until=5.0))
    assert batches.open is not None
    assert not ready(batches, 4.99)
    assert ready(batches, 5.0)
    assert ready(batches, 4.99, flushing=True)
    size = batches.open.filled
    assert ready(batches, 4.99, batch_size=size)
    assert not ready(batches, 4.99, batch_size=size + 1)


# Order


async def test_batches_are_taken_the_oldest_first_and_the_newest_last() -> None:
    first, second, newest = batch(1), batch(2), batch(3)
    batches = queue(first, second, newest=newest)
    assert batches.batches() == [first, second, newest]
    for expected in (first, second, newest):
        assert batches.next_size == expected.size
        assert batches.take(SEVEN) is expected
        assert (batches.in_flight, batches.batches()[0]) == (expected, expected)
        batches.in_flight = None
    assert batches.batches() == [] and batches.open is None


async def test_a_batch_that_failed_is_sent_again_before_all_others() -> None:
    first, second = batch(), batch()
    batches = queue(first, second)
    batches.take(SEVEN)
    batches.put_back(6.0)
    assert (batches.batches(), batches.in_flight, batches.retry_at) == ([first, second], None, 6.0)
    assert batches.take(SEVEN) is first
    assert first.attempts == 2


async def test_all_that_waits_is_taken_without_what_is_under_way() -> None:
    first, second, newest = batch(), batch(), batch()
    batches = queue(first, second, newest=newest)
    batches.take(SEVEN)
    assert batches.take_waiting() == [second, newest]
    assert batches.batches() == [first] and batches.open is None
    assert batches.take_waiting() == []


# Sequence numbers


async def test_batches_are_numbered_by_their_records() -> None:
    made = [batch(3), batch(2), batch(1)]
    batches = queue(*made)
    for _ in made:
        batches.take(SEVEN)
        batches.in_flight = None
    assert [(batch.producer_id, batch.sequence) for batch in made] == [(SEVEN, 0), (SEVEN, 3), (SEVEN, 5)]


async def test_another_producer_id_begins_at_0_again() -> None:
    made = [batch(3), batch(2), batch(1)]
    batches = queue(*made)
    for producer_id in (SEVEN, EIGHT, EIGHT):
        batches.take(producer_id)
        batches.in_flight = None
    assert [(batch.producer_id, batch.sequence) for batch in made] == [(SEVEN, 0), (EIGHT, 0), (EIGHT, 2)]


async def test_a_batch_that_is_sent_again_keeps_its_number() -> None:
    batches = queue(batch(3), batch(2))
    first = batches.take(SEVEN)
    batches.put_back(0.0)
    batches.take(EIGHT)
    assert (first.producer_id, first.sequence) == (SEVEN, 0)
    batches.in_flight = None
    second = batches.take(SEVEN)
    assert second.sequence == 3


async def test_the_sequence_number_of_a_rejected_batch_is_reused() -> None:
    batches = queue(batch(3), batch(2))
    batches.take(SEVEN)
    batches.refused()
    batches.in_flight = None
    assert batches.take(SEVEN).sequence == 0


async def test_the_number_of_a_batch_under_an_earlier_producer_id_is_not_used_again() -> None:
    batches = queue(batch(3), batch(2), batch(1))
    batches.take(SEVEN)
    batches.in_flight = None
    refused = batches.take(SEVEN)
    assert refused.sequence == 3
    batches.producer_id = EIGHT
    batches.next_sequence = 9
    batches.refused()
    batches.in_flight = None
    assert batches.take(EIGHT).sequence == 9


async def test_numbers_begin_again_after_the_last_one() -> None:
    batches = queue(batch(3), batch(2), batch(1))
    batches.producer_id, batches.next_sequence = SEVEN, LAST_SEQUENCE - 2
    assert batches.take(SEVEN).sequence == LAST_SEQUENCE - 2
    batches.in_flight = None
    assert batches.take(SEVEN).sequence == 0


async def test_a_batch_is_encoded_with_its_number_and_once() -> None:
    made = batch(2)
    (plain,) = [header for _, header in batches(made.encoded(Codec.NONE))]
    assert plain.producer_id == -1
    made.number(SEVEN, 5)
    data = made.encoded(Codec.NONE)
    (at_and_header,) = batches(data)
    header = at_and_header[1]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 5)
    assert [record.value for record in decode_records(data, at_and_header[0])] == [b"0", b"1"]
    assert made.encoded(Codec.NONE) is data


async def test_a_batch_that_is_over_holds_no_bytes() -> None:
    written, failed = batch(2), batch(2)
    for ended in (written, failed):
        ended.encoded(Codec.NONE)
    written.succeed(5, None)
    assert (written.count, written._encoded) == (0, None)
    failed.fail(failure_of(2))
    assert failed._encoded is None


# Deliveries


async def test_the_deliveries_of_a_batch_have_the_offset_of_each_record() -> None:
    made = batch(2)
    first, second = Delivery(made, 0), Delivery(made, 1)
    assert not first.done()
    made.succeed(5, 77)
    assert first.done()
    assert await first == ("t", 0, 5, 77)
    assert second.result() == ("t", 0, 6, 77)


async def test_without_acknowledgements_no_record_has_an_offset() -> None:
    made = batch(2)
    made.succeed(NO_OFFSET, None)
    assert Delivery(made, 1).result() == ("t", 0, -1, None)


async def test_a_delivery_that_is_awaited_early_waits() -> None:
    made = batch()
    waiting = asyncio.ensure_future(Delivery(made, 0))
    await asyncio.sleep(0)
    assert not waiting.done()
    made.succeed(5, None)
    assert (await waiting).offset == 5


async def test_a_task_that_stops_waiting_leaves_the_delivery_to_the_others() -> None:
    made = batch()
    delivery = Delivery(made, 0)
    given_up = asyncio.ensure_future(delivery)
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    made.succeed(5, None)
    assert (await delivery).offset == 5


async def test_the_error_of_a_batch_is_raised_by_each_delivery_and_then_counts_as_seen() -> None:
    made, failure = batch(3), failure_of(3)
    early = asyncio.ensure_future(Delivery(made, 0))
    await asyncio.sleep(0)
    made.fail(failure)
    with pytest.raises(KafkaError) as raised:
        await early
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(KafkaError):
        Delivery(made, 2).result()
    assert failure.unseen == 1


async def test_a_delivery_that_is_not_over_has_no_result() -> None:
    made = batch()
    with pytest.raises(asyncio.InvalidStateError):
        Delivery(made, 0).result()


async def test_a_failure_that_is_not_awaited_is_reported_by_the_producer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = batch()
    made.fail(failure_of(1))
    del made
    gc.collect()
    assert not caplog.records


async def test_the_first_outcome_of_a_batch_wins() -> None:
    written, failed = batch(), batch()
    written.succeed(5, None)
    written.fail(failure_of(1))
    assert (written.failure, Delivery(written, 0).result().offset) == (None, 5)
    failed.fail(failure_of(1))
    failed.succeed(5, None)
    with pytest.raises(KafkaError):
        Delivery(failed, 0).result()


async def test_a_callback_gets_the_delivery_when_it_is_over() -> None:
    made = batch()
    delivery = Delivery(made, 0)
    told: list[Delivery] = []
    delivery.add_done_callback(told.append)
    await asyncio.sleep(0)
    assert told == []
    made.succeed(5, None)
    await asyncio.sleep(0)
    assert told == [delivery]
