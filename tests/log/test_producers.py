"""Kafka's rules for idempotent producers, one test per rule."""

import pytest

from kohort.log.producers import Accepted, Duplicate, Fenced, OutOfOrder, ProducerStates, Verdict
from kohort.wire.batches import BatchHeader, read_header
from tests.log.logs import batch


def header(
    sequence: int, *, epoch: int = 0, count: int = 1, offset: int = 0, producer_id: int = 7, **options: bool
) -> BatchHeader:
    sent = batch(*[b"v"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **options)
    return read_header(sent)._replace(base_offset=offset)


def states(*headers: BatchHeader) -> ProducerStates:
    producers = ProducerStates()
    for header in headers:
        assert producers.check(header) == Accepted()
        producers.update(header)
    return producers


def kind(verdict: Verdict) -> type[Verdict]:
    return type(verdict)


def test_batches_without_a_producer_are_not_tracked() -> None:
    producers = states(header(-1, producer_id=-1), header(-1, producer_id=-1))
    assert len(producers) == 0


def test_the_next_sequence_is_accepted_and_a_gap_is_out_of_order() -> None:
    producers = states(header(0, count=3))
    assert producers.check(header(3)) == Accepted()
    assert kind(producers.check(header(4))) is OutOfOrder
    assert kind(producers.check(header(1))) is OutOfOrder


def test_each_of_the_last_five_batches_is_known_as_a_duplicate_with_its_offset() -> None:
    sent = [header(sequence, offset=100 + sequence) for sequence in range(7)]
    producers = states(*sent)
    assert [producers.check(header) for header in sent[2:]] == [Duplicate(100 + n, 100 + n) for n in range(2, 7)]
    assert kind(producers.check(sent[1])) is OutOfOrder


def test_a_batch_of_another_size_at_a_known_sequence_is_not_a_duplicate() -> None:
    producers = states(header(0, count=2))
    assert kind(producers.check(header(0, count=3))) is OutOfOrder


def test_an_unknown_producer_may_begin_anywhere_because_retention_forgets() -> None:
    assert ProducerStates().check(header(55)) == Accepted()


def test_a_transaction_of_an_unknown_producer_begins_at_zero() -> None:
    assert kind(ProducerStates().check(header(55, transactional=True))) is OutOfOrder
    assert ProducerStates().check(header(0, transactional=True)) == Accepted()


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one() -> None:
    producers = states(header(0), header(1))
    assert kind(producers.check(header(2, epoch=1))) is OutOfOrder
    producers.update(header(0, epoch=1))
    assert kind(producers.check(header(2))) is Fenced
    assert kind(producers.check(header(0))) is Fenced
    assert producers.check(header(1, epoch=1)) == Accepted()


@pytest.mark.parametrize("last", [2**31 - 1, 2**31 - 2])
def test_sequences_wrap_to_zero(last: int) -> None:
    first = header(last, count=2**31 - last)
    producers = states(first)
    assert producers.check(header(0)) == Accepted()
    assert kind(producers.check(header(1))) is OutOfOrder


def test_a_batch_across_the_wrap_is_followed_and_known() -> None:
    across = header(2**31 - 2, count=5)
    producers = states(across)
    assert producers.check(across) == Duplicate(0, 4)
    assert producers.check(header(3)) == Accepted()


def test_a_marker_moves_the_epoch_and_leaves_sequences_to_begin_again() -> None:
    producers = states(header(0), header(1))
    producers.update(header(-1, epoch=1, control=True))
    assert kind(producers.check(header(2))) is Fenced
    assert producers.check(header(0, epoch=1)) == Accepted()


def test_producers_do_not_disturb_each_other() -> None:
    producers = states(header(0), header(0, producer_id=8))
    assert producers.check(header(1)) == Accepted()
    assert producers.check(header(1, producer_id=8)) == Accepted()


def test_known_producers_can_be_restored() -> None:
    producers = states(header(0))
    before = producers.get(7)
    producers.update(header(1))
    producers.restore(7, before)
    assert producers.check(header(1)) == Accepted()
    producers.restore(7, None)
    assert len(producers) == 0


def test_a_snapshot_is_left_alone_by_later_batches() -> None:
    producers = states(header(0))
    snapshot = producers.snapshot()
    producers.update(header(1))
    again = ProducerStates()
    again.replace(snapshot, [(header(1), None), (header(2), None)])
    assert kind(again.check(header(2))) is Duplicate
    assert ProducerStates(snapshot).check(header(1)) == Accepted()


def test_version_1_accepts_late_requests_that_no_epoch_tells_from_new_ones() -> None:
    # Decision 016: a marker of the last transaction, and any sequence once the producer is forgotten.
    producers = states(header(0, transactional=True))
    assert producers.check_marker(7, 0, 0, 1) == Accepted()
    assert type(producers.check_marker(7, 0, 0, 2)) is Fenced
    late = header(5, transactional=True)
    assert ProducerStates().check(late, epoch_per_transaction=False) == Accepted()
    assert kind(ProducerStates().check(late)) is OutOfOrder
