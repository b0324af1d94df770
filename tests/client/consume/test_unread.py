"""Records that wait for an iteration: who takes them, and what is left when partitions pause or go."""

from kohort.client.consume import ConsumerRecord
from kohort.client.consume.unread import UnreadRecords
from kohort.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def run(partition: TopicPartition, *offsets: int) -> list[ConsumerRecord]:
    return [ConsumerRecord(*partition, offset, 0, None, b"", ()) for offset in offsets]


def unread_records(*runs: list[ConsumerRecord]) -> UnreadRecords:
    unread = UnreadRecords()
    unread.extend(runs)
    return unread


def offsets(unread: UnreadRecords) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in unread.take(100)]


def test_ready_hands_out_one_run_and_next_run_the_following() -> None:
    unread = unread_records(run(A, 1, 2), run(B, 7))
    assert [*unread.ready] == []
    assert unread.next_run()
    assert [record.offset for record in unread.ready] == [1, 2]
    assert unread
    assert unread.next_run()
    assert next(unread.ready).offset == 7
    assert not unread
    assert not unread.next_run()
    assert unread.pop() is None


def test_the_position_follows_what_ready_hands_out() -> None:
    unread = unread_records(run(A, 1, 2, 5), run(B, 7))
    assert unread.last_handed_out() is None
    assert unread.next_run()
    assert (unread.first_offset(A), unread.first_offset(B), unread.last_handed_out()) == (1, 7, None)
    last = [next(unread.ready), next(unread.ready)][-1]
    assert unread.first_offset(A) == 5
    assert unread.last_handed_out() is last
    next(unread.ready)
    assert unread.first_offset(A) is None
    assert unread.next_run()
    assert unread.last_handed_out() is None


def test_take_crosses_runs() -> None:
    unread = unread_records(run(A, 1, 2), run(B, 7, 8))
    assert [record.offset for record in unread.take(3)] == [1, 2, 7]
    assert offsets(unread) == [(1, 8)]


def test_a_paused_partition_ends_the_iterator_that_others_hold() -> None:
    unread = unread_records(run(A, 1, 2, 3), run(B, 7))
    assert unread.next_run()
    held = unread.ready
    assert next(held).offset == 1
    unread.hold(A)
    assert [*held] == []
    assert unread.first_offset(A) == 2  # a commit now is for what was handed out
    assert offsets(unread) == [(1, 7)]
    unread.release(A)
    assert offsets(unread) == [(0, 2), (0, 3)]


def test_pausing_another_partition_leaves_the_iterator_alone() -> None:
    unread = unread_records(run(A, 1, 2), run(B, 7))
    assert unread.next_run()
    held = unread.ready
    unread.hold(B)
    assert next(held).offset == 1
    unread.release(B)
    assert offsets(unread) == [(1, 7), (0, 2)]


def test_what_belongs_to_a_removed_partition_is_gone() -> None:
    unread = unread_records(run(A, 1, 2), run(B, 7), run(A, 3))
    assert unread.next_run()
    held = unread.ready
    next(held)
    unread.hold(B)
    unread.forget({A, B})
    assert [*held] == []
    assert not unread
    unread.release(B)
    assert offsets(unread) == []


def test_what_is_put_back_comes_first() -> None:
    unread = unread_records(run(A, 3, 4))
    taken = unread.take(1)
    unread.put_back(run(B, 9) + taken)
    assert unread.first_offset(A) == 3
    assert offsets(unread) == [(1, 9), (0, 3), (0, 4)]
