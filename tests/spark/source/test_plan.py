"""The end of a batch, and the distribution of its ranges over tasks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.model import TopicPartition
from pyspark_kohort.offsets import Offset
from pyspark_kohort.source import plan
from pyspark_kohort.source.plan import Range

A, B, C = (TopicPartition("flights", n) for n in range(3))
sizes = st.lists(st.integers(0, 2_000_000), max_size=20)


def ranges_of(lengths: list[int]) -> list[Range]:
    return [Range("flights", n, 10, 10 + length) for n, length in enumerate(lengths) if length]


def test_a_limit_is_shared_in_proportion() -> None:
    # The figures are those of spark-sql-kafka's rule: rounded down, but at least one record where there is one.
    assert plan.limited_ends({A: 0, B: 100, C: 0}, {A: 900, B: 200, C: 0}, 100) == {A: 90, B: 110, C: 0}
    assert plan.limited_ends({A: 0, B: 0}, {A: 1000, B: 1}, 10) == {A: 9, B: 1}
    assert plan.limited_ends({A: 0, B: 0}, {A: 3, B: 1}, 2) == {A: 1, B: 1}
    assert plan.limited_ends({A: 5, B: 0}, {A: 7, B: 1}, None) == {A: 7, B: 1}
    assert plan.limited_ends({A: 5}, {A: 3}, 10) == {A: 5}


@given(sizes, st.integers(1, 5000))
def test_a_limit_makes_progress_and_is_kept(lengths: list[int], rows: int) -> None:
    ends = {TopicPartition("t", n): length for n, length in enumerate(lengths)}
    untils = plan.limited_ends(dict.fromkeys(ends, 0), ends, rows)
    assert all(0 < untils[tp] <= end if end else untils[tp] == 0 for tp, end in ends.items())
    assert sum(untils.values()) <= rows + len(lengths)


def test_a_partition_that_does_not_go_on_from_the_offset_before_is_pinned() -> None:
    start = Offset({A: 5, B: 7})
    end = plan.advanced_offset(start, {A: 5, B: 9, C: 0}, {A: 6, B: 9, C: 4})
    assert end == Offset({A: 6, B: 9, C: 4}, {B: 9, C: 0})
    assert plan.planned_ranges(start, end) == [Range("flights", 0, 5, 6), Range("flights", 2, 0, 4)]


def test_a_new_assignment_without_records_leaves_the_offset_as_it_is() -> None:
    start = Offset({A: 5}, {A: 2})
    assert plan.advanced_offset(start, {}, {}) is start
    assert plan.advanced_offset(start, {B: 3}, {B: 3}) is start
    assert plan.advanced_offset(start, {A: 5, B: 3}, {A: 4, B: 3}) is start


def test_only_a_step_back_that_is_asked_for_is_worth_an_empty_batch() -> None:
    start = Offset({A: 5, B: 7})
    assert plan.advanced_offset(start, {A: 3, B: 7}, {A: 3, B: 7}) is start
    assert plan.advanced_offset(start, {A: 3, B: 7}, {A: 3, B: 7}, back=True) == Offset({A: 3, B: 7}, {A: 3})
    assert plan.advanced_offset(start, {A: 5, B: 7, C: 1}, {A: 5, B: 7, C: 1}, back=True) is start


def test_a_partition_without_a_known_start_is_not_read() -> None:
    assert plan.planned_ranges(Offset({A: 5}), Offset({A: 5, B: 4})) == []


def test_lag_is_counted_where_the_end_is_known() -> None:
    assert plan.behind({A: 3, B: 9, C: 1}, {A: 5, B: 7}) == 2
    assert plan.behind({A: 3, B: 6}, {A: 3, B: 7}) == 1


def test_the_range_of_a_batch_depends_on_its_two_offsets_only() -> None:
    assert plan.planned_ranges(Offset({A: 5, B: 1}), Offset({A: 5, B: 4})) == [Range("flights", 1, 1, 4)]
    # B was given away before and is won back: its pin, not its old position, is where it begins.
    assert plan.planned_ranges(Offset({A: 5, B: 1}), Offset({B: 8}, {B: 6})) == [Range("flights", 1, 6, 8)]


def test_a_replay_reads_what_is_owned_and_not_yet_committed() -> None:
    planned = [Range("flights", n, 10, 20) for n in range(3)]
    assert plan.clipped_ranges(planned, {A: 10, B: 15}) == [Range("flights", 0, 10, 20), Range("flights", 1, 15, 20)]
    assert plan.clipped_ranges(planned, {A: 20, C: 4}) == [Range("flights", 2, 10, 20)]


@settings(deadline=None)  # up to 40,000 pieces, on a machine that does other things
@given(sizes, st.integers(1, 30), st.none() | st.integers(1000, 100_000))
def test_splitting_and_packing_lose_and_double_nothing(lengths: list[int], least: int, most_rows: int | None) -> None:
    planned = ranges_of(lengths)
    tasks = plan.tasks(planned, cores=2, most=None, least=least, most_rows=most_rows)
    pieces = sorted((p for task in tasks for p in task), key=lambda p: (p.partition, p.start))
    rebuilt: list[Range] = []
    for piece in pieces:
        assert piece.size > 0
        assert most_rows is None or piece.size <= most_rows
        if rebuilt and rebuilt[-1].partition == piece.partition:
            assert rebuilt[-1].until == piece.start
            rebuilt[-1] = Range("flights", piece.partition, rebuilt[-1].start, piece.until)
        else:
            rebuilt.append(piece)
    assert rebuilt == planned
    assert all(tasks)


def test_few_records_make_few_tasks_and_many_make_many() -> None:
    def tasks(rows: int, partitions: int, most: int | None = None) -> int:
        planned = ranges_of([rows // partitions] * partitions)
        return len(plan.tasks(planned, cores=4, most=most, least=None, most_rows=None))

    assert tasks(100, 50) == 1
    assert tasks(60_000, 50) == 3
    assert tasks(1_000_000, 50) == 4
    assert tasks(10_000_000, 50) == 20
    assert tasks(10_000_000, 8) == 8
    assert tasks(10_000_000, 8, most=2) == 2


def test_tasks_are_balanced_by_records() -> None:
    tasks = plan.packed(ranges_of([100, 60, 50, 10]), 2)
    assert [sum(part.size for part in task) for task in tasks] == [110, 110]


def test_minimum_partitions_split_the_large_ones() -> None:
    pieces = plan.split(ranges_of([300, 100]), 4)
    assert [(piece.partition, piece.size) for piece in pieces] == [(0, 100), (0, 100), (0, 100), (1, 100)]
    tasks = plan.tasks(ranges_of([300, 100]), cores=2, most=None, least=4, most_rows=None)
    assert [sum(part.size for part in task) for task in tasks] == [100] * 4
    enough = ranges_of([300, 100])
    assert plan.split(enough, 2) == enough
    assert plan.split(enough, 1) == enough
    assert plan.split([], 4) == []


def test_a_range_keeps_the_id_of_its_topic_through_every_cut() -> None:
    planned = plan.planned_ranges(Offset({A: 0}), Offset({A: 90}, topic_ids={"flights": "id"}))
    kept = plan.clipped_ranges(planned, {A: 30})
    (tasks,) = zip(*plan.tasks(kept, cores=1, most=None, least=3, most_rows=None), strict=True)
    assert [(part.start, part.until, part.topic_id) for part in sorted(tasks, key=lambda part: part.start)] == [
        (30, 50, "id"),
        (50, 70, "id"),
        (70, 90, "id"),
    ]
