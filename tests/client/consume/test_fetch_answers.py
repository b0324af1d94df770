"""The effect of each response to a fetch."""

from __future__ import annotations

import gc
import logging
from dataclasses import replace

import pytest

from kohort import ErrorCode, KafkaError
from kohort.client.consume.partition import PartitionState
from kohort.model import NO_TOPIC_ID
from kohort.requests import ClusterMetadata
from kohort.wire.batches import BatchError, Marker, Record, encode_batch, encode_marker
from kohort.wire.messages.fetch import AbortedTransaction, FetchResponse, PartitionData
from tests.client.conftest import eventually
from tests.client.fetching import FETCH, LONG, METADATA, ONE, PRODUCE, ZERO, fetches, fetching, partitions_of, refuse


async def test_an_answer_has_the_start_and_end_of_the_partition() -> None:
    def told(data: PartitionData) -> None:
        data.log_start_offset, data.high_watermark, data.last_stable_offset = 0, 9, 7

    async with fetching() as here:
        here.answer(told)
        await here.write(3)
        (state,) = here.fetch(ZERO)
        await eventually(lambda: bool(here.news))
        assert (state.start, state.end, here.lost) == (0, 9, [])


async def test_an_answer_without_a_start_offset_leaves_it_unknown() -> None:
    async with fetching() as here:
        here.answer(lambda data: setattr(data, "log_start_offset", -1))
        (state,) = here.fetch(ZERO)
        await eventually(lambda: state.end == 0)
        assert state.start is None


def one_aborted(data: PartitionData) -> None:
    """Three records of producer 7, whose transaction was aborted, and three of producer 8."""
    records = [
        bytes(
            encode_batch(
                [Record(3 * number + n, 0, None, b"x", []) for n in range(3)],
                producer_id=7 + number,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
        )
        for number in range(2)
    ]
    data.records = b"".join(records) if data.records else None
    data.aborted_transactions = [AbortedTransaction(producer_id=7, first_offset=0)]
    data.high_watermark, data.last_stable_offset = 9, 7


@pytest.mark.parametrize(
    ("level", "offsets", "end"), [("read_committed", [3, 4, 5], 7), ("read_uncommitted", [*range(6)], 9)]
)
async def test_the_records_of_an_aborted_transaction_count_only_uncommitted(
    level: str, offsets: list[int], end: int
) -> None:
    async with fetching(isolation_level=level) as here:
        here.answer(one_aborted)
        await here.write(6)
        (state,) = here.fetch(ZERO)
        await eventually(lambda: bool(here.news))
        assert ([record.offset for record in here.fetcher.take(10)], state.end) == (offsets, end)


def aborted_then_committed(data: PartitionData) -> None:
    """Three records of an aborted transaction, its marker, and three of the next transaction of the same producer."""

    def three(first: int) -> bytes:
        records = [Record(first + n, 0, None, b"x", []) for n in range(3)]
        return bytes(encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))

    marker = encode_marker(7, 0, Marker(committed=False, coordinator_epoch=0), 0)
    marker[:8] = (3).to_bytes(8)  # its offset
    data.records = b"".join([three(0), marker, three(4)]) if data.records else None
    data.aborted_transactions = [AbortedTransaction(producer_id=7, first_offset=0)]
    data.high_watermark = data.last_stable_offset = 8


async def test_the_marker_of_an_aborted_transaction_ends_it() -> None:
    async with fetching(isolation_level="read_committed") as here:
        here.answer(aborted_then_committed)
        await here.write(7)
        here.fetch(ZERO)
        await eventually(lambda: bool(here.news))
        assert [record.offset for record in here.fetcher.take(10)] == [4, 5, 6]


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
async def test_an_answer_may_have_no_list_of_aborted_transactions(level: str) -> None:
    async with fetching(isolation_level=level) as here:
        here.answer(lambda data: setattr(data, "aborted_transactions", None))
        await here.write(3)
        here.fetch(ZERO)
        await eventually(lambda: bool(here.news))
        assert len(here.fetcher.take(10)) == 3


async def test_an_answer_to_a_fetch_before_a_seek_is_dropped_and_the_others_count() -> None:
    async with fetching() as here:
        await here.write(6, 2)
        here.hold()
        moved, _ = here.fetch(ZERO, ONE)
        await here.asked()
        moved.move(2)
        here.release_one()
        await eventually(lambda: bool(here.news))
        assert [(record.partition, record.offset) for record in here.fetcher.take(3)] == [(1, 0), (1, 1), (1, 2)]
        here.release()
        await eventually(lambda: moved.has_records)
        assert [record.offset for record in here.fetcher.take(3)] == [2]


async def test_the_error_of_a_removed_partition_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    async with fetching(**LONG) as here:
        here.answer(refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        here.hold()
        state, other = here.fetch(ZERO, ONE)
        await here.asked()
        here.fetcher.remove([ZERO])
        here.release()
        await eventually(lambda: other.end == 0)
        assert (state.position, state.failures, here.news) == (None, 0, [])


async def test_a_removed_partition_that_fails_again_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    async with fetching(**LONG) as here:
        here.answer(refuse(ErrorCode.KAFKA_STORAGE_ERROR))
        for position in range(2):
            (state,) = here.fetch(ZERO, position=position)
            await eventually(lambda failing=state: failing.failures == 1)  # type: ignore[misc]
            here.fetcher.remove([ZERO])
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("not fetched")]
    assert len(lines) == 2


async def test_a_partition_that_fails_beside_one_that_does_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kohort.client")
    async with fetching(retry_backoff_ms=1_000, retry_backoff_max_ms=600_000) as here:
        await here.write(2, 2)
        here.answer(refuse(ErrorCode.KAFKA_STORAGE_ERROR))
        failing, sound = here.fetch(ZERO, ONE)
        await eventually(lambda: bool(here.news))
        assert (failing.failures, sound.failures) == (1, 0)
        assert len(here.fetcher.take(10)) == 1
        await eventually(lambda: sound.slot is not None)
        del here.link.change[FETCH]
        failing.retry_at = 0.0
        here.fetcher.fetch_more()
        await eventually(lambda: failing.has_records)
        assert failing.failures == 0
    began, ended = [record.getMessage() for record in caplog.records]
    assert began.startswith("not fetched: t-0: ")
    assert ended.startswith("fetched again after ") and ended.endswith(" s: t-0")


async def test_a_partition_that_the_first_answer_leaves_out_is_asked_for_in_a_new_session() -> None:
    def without_zero(answer: FetchResponse, client: str | None) -> None:
        for topic in answer.responses:
            topic.partitions = [partition for partition in topic.partitions if partition.partition_index]

    async with fetching(**LONG) as here:
        here.link.change[FETCH] = without_zero
        left_out, other = here.fetch(ZERO, ONE)
        await eventually(lambda: bool(here.news))
        assert (left_out.failures, other.failures, other.end) == (1, 0, 0)
        await here.asked()
        assert (here.requests[1].session_epoch, partitions_of(here.requests[1])) == (0, [1])


async def test_a_partition_that_is_left_out_after_a_seek_is_fetched_at_once() -> None:
    async with fetching(**LONG) as here:
        here.answer_all(responses=[])
        here.hold()
        moved, other = here.fetch(ZERO, ONE)
        await here.asked()
        moved.move(1)
        here.release_one()
        await eventually(lambda: other.failures == 1)
        assert moved.failures == 0


async def test_a_fetch_that_brings_nothing_but_an_error_is_over() -> None:
    async with fetching(**LONG) as here:
        here.answer(refuse(ErrorCode.KAFKA_STORAGE_ERROR))
        (state,) = here.fetch(ZERO)
        await eventually(lambda: bool(here.news))
        await eventually(lambda: not fetches())
        assert (state.failures, len(here.requests)) == (1, 1)


async def test_a_partition_that_was_not_asked_for_is_passed_over() -> None:
    def with_another(answer: FetchResponse, client: str | None) -> None:
        for topic in answer.responses:
            topic.partitions.insert(0, PartitionData(partition_index=7, high_watermark=9))

    async with fetching() as here:
        await here.write(3)
        here.link.change[FETCH] = with_another
        (state,) = here.fetch(ZERO)
        await eventually(lambda: bool(here.news))
        assert len(here.fetcher.take(10)) == 3
        assert state.failures == 0


async def test_nothing_is_kept_of_a_partition_that_was_removed() -> None:
    of_other_tests = [thing for thing in gc.get_objects() if isinstance(thing, PartitionState)]
    async with fetching(**LONG) as here:
        here.answer(lambda data: setattr(data, "preferred_read_replica", 9))
        here.fetch(ZERO)
        await eventually(lambda: bool(here.news))
        here.fetcher.remove([ZERO])
        await eventually(lambda: not fetches())
        gc.collect()
        kept = [thing for thing in gc.get_objects() if isinstance(thing, PartitionState)]
        assert all(any(thing is other for other in of_other_tests) for thing in kept)


# Topic ids (KIP-516)


async def test_a_broker_without_topic_ids_is_asked_by_name() -> None:
    async with fetching(versions={PRODUCE: 12, FETCH: 12, METADATA: 9}) as here:
        await here.write(3)
        (state,) = here.fetch(ZERO)
        await eventually(lambda: bool(here.news))
        assert [record.offset for record in here.fetcher.take(10)] == [0, 1, 2]
        assert state.topic_id is None and here.requests[0].topics[0].topic == "t"


async def test_an_answer_is_used_if_metadata_dropped_the_topic_meanwhile() -> None:
    async with fetching() as here:
        await here.write(3)
        here.hold()
        (state,) = here.fetch(ZERO)
        await here.asked()
        assert state.topic_id == here.requests[0].topics[0].topic_id == here.broker.topics.all()["t"].topic_id
        here.cluster._refresher.metadata = ClusterMetadata()
        here.release_one()  # only this answer counts
        await eventually(lambda: bool(here.news))
        assert [record.offset for record in here.fetcher.take(10)] == [0, 1, 2]


async def test_a_topic_that_metadata_drops_before_the_request_is_asked_for_without_an_id() -> None:
    async with fetching(**LONG) as here:
        (state,) = here.fetcher.add([ZERO])
        await here.cluster.refresh()
        state.move(0)
        here.fetcher.fetch_more()
        here.cluster._refresher.metadata = replace(here.cluster.metadata, topics={})
        await eventually(lambda: state.failures == 1)
        assert here.requests[0].topics[0].topic_id == NO_TOPIC_ID


# Damage


@pytest.mark.parametrize("damage", ["half a batch", "no batch"])
async def test_bytes_that_are_not_a_batch_raise_and_are_not_fetched_again(damage: str) -> None:
    def broken(data: PartitionData) -> None:
        assert isinstance(data.records, bytes | bytearray | memoryview)
        data.records = bytes(data.records)[:30] if damage == "half a batch" else b"\xff" * 100

    async with fetching() as here:
        await here.write(3)
        here.answer(broken)
        (state,) = here.fetch(ZERO)
        await eventually(lambda: bool(here.news))
        await eventually(lambda: not fetches())
        assert len(here.requests) == 1
        with pytest.raises(BatchError, match=r"t-0 at offset 0: .*; seek past it to skip it") as raised:
            here.fetcher.take(10)
        assert isinstance(raised.value, KafkaError) and raised.value.code is ErrorCode.CORRUPT_MESSAGE
        assert state.position == 0


async def test_a_throttled_answer_without_partitions_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    # A broker answers a client above its quota so, and opens no session.
    caplog.set_level(logging.WARNING, "kohort.client")
    async with fetching(**LONG) as here:
        here.answer_all(responses=[], session_id=0, throttle_time_ms=1)
        await here.write(3)
        (state,) = here.fetch(ZERO)
        await here.asked(2)
        assert (state.failures, here.news) == (0, [])
        assert [(request.session_epoch, partitions_of(request)) for request in here.requests[:2]] == [(0, [0])] * 2
        del here.link.change[FETCH]
        await eventually(lambda: bool(here.news))
        assert len(here.fetcher.take(10)) == 3
    assert caplog.records == []
