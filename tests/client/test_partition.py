"""What was fetched of a partition comes out in order, once, and without what an application must not see."""

from __future__ import annotations

import pytest

from kohort import ErrorCode, KafkaError, OffsetSpec, TopicPartition
from kohort.client.partition import PartitionState
from kohort.wire.fetch import AbortedTransaction
from kohort.wire.records import Codec, Record, encode_batch

HERE = TopicPartition("t", 0)


def state_at(position: int) -> PartitionState:
    state = PartitionState(HERE, check_crc=True)
    state.move(position)
    return state


def batch(*offsets: int, **more: object) -> bytes:
    records = [Record(offset, 1000 + offset, b"k", b"%d" % offset, [("h", b"x")]) for offset in offsets]
    return bytes(encode_batch(records, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_with_all_they_have(codec: Codec) -> None:
    state = state_at(0)
    state.add(batch(0, 1, codec=codec), ())
    assert state.take(10)[1] == ("t", 0, 1, 1001, b"k", b"1", [("h", b"x")])
    assert (state.position, state.fetch_at) == (2, 2)
    assert state.take(10) == []
    assert (state.buffered, state.has_records) == (0, False)


def test_a_batch_that_begins_before_the_position_is_cut() -> None:
    state = state_at(3)
    state.add(batch(0, 1, 2, 3, 4), ())
    assert [record.offset for record in state.take(10)] == [3, 4]


def test_as_many_as_asked_for_and_the_rest_later() -> None:
    state = state_at(0)
    state.add(batch(0, 1, 2) + batch(3, 4, 5), ())
    assert [[record.offset for record in state.take(2)] for _ in range(4)] == [[0, 1], [2, 3], [4, 5], []]


def test_what_compaction_took_away_is_passed_over() -> None:
    state = state_at(0)
    state.add(batch(2, 7) + batch(9), ())
    assert [record.offset for record in state.take(10)] == [2, 7, 9]
    assert state.position == 10


def test_a_torn_batch_at_the_end_is_fetched_again() -> None:
    state = state_at(0)
    state.add(batch(0) + batch(1)[:-3], ())
    assert (state.fetch_at, [record.offset for record in state.take(10)]) == (1, [0])


def test_a_seek_forgets_what_was_fetched() -> None:
    state = state_at(0)
    state.add(batch(0, 1, 2), ())
    state.take(1)
    turn = state.turn
    state.move(7)
    assert (state.take(10), state.position, state.fetch_at, state.buffered) == ([], 7, 7, 0)
    assert state.turn != turn
    state.lose(OffsetSpec.EARLIEST)
    assert (state.position, state.reset) == (None, OffsetSpec.EARLIEST)


def test_markers_are_not_records() -> None:
    state = state_at(0)
    state.add(batch(0) + batch(1, control=True, producer_id=5, producer_epoch=0) + batch(2), ())
    assert [record.offset for record in state.take(10)] == [0, 2]


def test_aborted_transactions_are_passed_over() -> None:
    def transactional(offset: int, producer_id: int, *, control: bool = False) -> bytes:
        return batch(offset, producer_id=producer_id, producer_epoch=0, transactional=True, control=control)

    data = (
        transactional(0, 1) + transactional(1, 2) + transactional(2, 1, control=True) + transactional(3, 1) + batch(4)
    )
    state = state_at(0)
    state.add(data, [AbortedTransaction(producer_id=1, first_offset=0)])
    assert [record.offset for record in state.take(10)] == [1, 3, 4]


def test_bytes_that_changed_on_the_way_are_refused() -> None:
    data = bytearray(batch(0))
    data[-1] ^= 1
    state = state_at(0)
    state.add(bytes(data), ())
    with pytest.raises(KafkaError) as raised:
        state.take(10)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
