"""Dark time and lag of a few partitions, as columns in and rows out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from kohort.analytics import timelines

Row = dict[str, Any]
Function = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_DARK_IN: list[tuple[str, pa.DataType]] = [
    ("group_id", pa.string()),
    ("group_type", pa.string()),
    ("position", pa.int64()),
    ("at", pa.int64()),
    ("epoch", pa.int32()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("previous_owner", pa.string()),
    ("owner", pa.string()),
    ("moved", pa.bool_()),
    ("last_at", pa.int64()),
    ("commits", pa.int64()),
]
_LAG_IN: list[tuple[str, pa.DataType]] = [
    ("group_id", pa.string()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("at", pa.int64()),
    ("position", pa.int64()),
    ("offset", pa.int64()),
]


def through(function: Function, fields: list[tuple[str, pa.DataType]], rows: list[Row]) -> list[Row]:
    """Each row in a batch of its own, in this order."""
    given = [pa.RecordBatch.from_pylist([row], schema=pa.schema(fields)) for row in rows]
    return [row for batch in function(given) for row in batch.to_pylist()]


def handover(position: int, partition: int = 0, group: str = "delays") -> Row:
    owners = {"previous_owner": "a", "owner": "b", "moved": True}
    place = {"group_id": group, "group_type": "classic", "topic": "flights", "partition": partition}
    return place | owners | {"position": position, "at": 50, "epoch": 2, "last_at": 0, "commits": 0}


def run(position: int, at: int, last_at: int, commits: int, partition: int = 0, group: str = "delays") -> Row:
    place = {"group_id": group, "topic": "flights", "partition": partition, "position": position}
    return place | {"at": at, "last_at": last_at, "commits": commits}


def wholes(rows: Sequence[Row]) -> list[Row]:
    """Return the total of all commits of each partition."""
    found = defaultdict(list)
    for row in rows:
        if row["commits"]:
            found[row["group_id"], row["partition"]].append(row)
    all_rows = []
    for (group, partition), runs in found.items():
        first, last = min(run["at"] for run in runs), max(run["last_at"] for run in runs)
        all_rows.append(run(-1, first, last, sum(run["commits"] for run in runs), partition, group))
    return all_rows


def dark(*rows: Row) -> list[tuple[Any, ...]]:
    names = ("partition", "position", "last_commit_at", "first_commit_at", "dark_ms", "excess_ms")
    found = through(timelines.dark, _DARK_IN, [*rows, *wholes(rows)])
    return sorted(tuple(row[name] for name in names) for row in found)


def test_a_handover_lies_between_two_commits_and_costs_what_is_more_than_usual() -> None:
    # Eleven commits in 1,000 ms: 100 ms lie between two.
    found = dark(run(9, 700, 1_000, 4), handover(5), run(1, 0, 300, 7))
    assert found == [(0, 5, 300, 700, 400, 300)]


def test_a_handover_before_the_first_commit_or_behind_the_last_has_no_dark_time() -> None:
    assert dark(handover(1), run(2, 100, 200, 2), handover(3)) == [
        (0, 1, None, 100, None, 0),
        (0, 3, 200, None, None, 0),
    ]
    assert dark(handover(1)) == [(0, 1, None, None, None, 0)]


def test_two_handovers_between_the_same_commits_give_the_excess_to_the_first() -> None:
    found = dark(run(1, 0, 0, 1), handover(2), handover(3), run(4, 1_000, 1_000, 1), run(5, 1_001, 1_001, 1))
    assert [(row[1], row[4], row[5]) for row in found] == [(2, 1_000, 499), (3, 1_000, 0)]


def test_partitions_and_groups_do_not_see_each_others_commits() -> None:
    mine = [run(1, 0, 10, 2), handover(2), run(3, 30, 40, 2)]
    others = [run(1, 0, 19, 2, partition=1), run(2, 21, 25, 3, group="other"), handover(3, 1), handover(4, group="new")]
    found = dark(*others, *mine)
    assert found == [(0, 2, 10, 30, 20, 6), (0, 4, None, None, None, 0), (1, 3, 19, None, None, 0)]


def test_usual_is_the_time_between_two_commits_wherever_the_first_is() -> None:
    # Two commits, 100 ms apart: nothing of that is more than usual. The first of a shard is at position 0.
    assert dark(run(0, 500, 500, 1), handover(1), run(2, 600, 600, 1)) == [(0, 1, 500, 600, 100, 0)]
    # Four commits in 3,000 ms: a handover that takes less than the usual 1,000 costs nothing.
    assert dark(run(0, 500, 2_500, 2), handover(1), run(2, 3_000, 3_500, 2)) == [(0, 1, 2_500, 3_000, 500, 0)]


def test_a_handover_between_runs_needs_no_sum_of_all_commits() -> None:
    found = through(timelines.dark, _DARK_IN, [run(1, 0, 10, 2), handover(2), run(3, 30, 40, 2)])
    assert [(row["dark_ms"], row["excess_ms"]) for row in found] == [(20, 20)]


def test_handovers_of_two_partitions_with_commits_at_one_time_cost_each_its_own() -> None:
    rows = [(run(1, 0, 100, 11, n), handover(2, n), run(3, 500, 600, 11, n)) for n in range(2)]
    found = dark(*(row for partition in rows for row in partition))
    assert [(row[0], row[4], row[5]) for row in found] == [(0, 400, 371), (1, 400, 371)]


def test_a_handover_before_the_first_commit_takes_nothing_from_the_next_one() -> None:
    # The unknown value of the first row has by chance the time of the last row.
    others = run(1, 100, 100, 1, partition=1)
    mine = [handover(1), run(2, 100, 100, 1), handover(3), run(4, 1_000, 1_000, 1), run(5, 1_001, 1_001, 1)]
    assert dark(*mine, others) == [(0, 1, None, 100, None, 0), (0, 3, 100, 1_000, 900, 449)]


def end(at: int, offset: int, partition: int = 0) -> Row:
    return {"topic": "flights", "partition": partition, "at": at, "position": 0, "offset": offset}


def committed(at: int, offset: int, position: int = 0, partition: int = 0, group: str = "delays") -> Row:
    place = {"group_id": group, "topic": "flights", "partition": partition}
    return place | {"at": at, "position": position, "offset": offset}


def lag(*rows: Row) -> list[tuple[Any, ...]]:
    names = ("group_id", "partition", "at", "committed", "end_offset", "lag", "lag_ms")
    found = through(timelines.lag, _LAG_IN, list(rows))
    return sorted(tuple(row[name] for name in names) for row in found)


def test_a_group_is_behind_from_its_first_commit_on_by_what_it_committed_last() -> None:
    ends = [end(at, at // 10) for at in (1_000, 2_000, 3_000, 4_000)]
    found = lag(committed(2_000, 150, position=8), *ends, committed(2_000, 140, position=3), committed(4_000, 400))
    assert found == [
        ("delays", 0, 2_000, 150, 200, 50, 500),
        ("delays", 0, 3_000, 150, 300, 150, 1_500),
        ("delays", 0, 4_000, 400, 400, 0, 0),
    ]


def test_edges_may_be_wider_apart_than_windows_of_commits() -> None:
    found = lag(end(1_000, 100), end(3_000, 300), committed(1_000, 100), committed(2_000, 250))
    assert found == [("delays", 0, 1_000, 100, 100, 0, 0), ("delays", 0, 3_000, 250, 300, 50, 500)]


def test_records_before_the_first_known_end_have_an_unknown_age() -> None:
    assert lag(end(1_000, 100), committed(1_000, 40)) == [("delays", 0, 1_000, 40, 100, 60, None)]


def test_the_age_of_an_unchanged_end_is_that_of_its_last_observation() -> None:
    # Nothing was produced from 1,000 to 3,000; what the group reads next came right behind.
    ends = [end(1_000, 10), end(2_000, 10), end(3_000, 10), end(4_000, 20)]
    assert lag(*ends, committed(4_000, 10)) == [("delays", 0, 4_000, 10, 20, 10, 1_000)]


def test_groups_and_partitions_have_ends_and_offsets_of_their_own() -> None:
    found = lag(
        *(end(1_000, 10), end(1_000, 70, partition=1), end(2_000, 20), end(2_000, 80, partition=1)),
        *(committed(1_000, 10), committed(2_000, 20, group="other"), committed(2_000, 75, partition=1)),
        committed(1_000, 5, partition=2),
    )
    assert found == [
        ("delays", 0, 1_000, 10, 10, 0, 0),
        ("delays", 0, 2_000, 10, 20, 10, 1_000),
        ("delays", 1, 2_000, 75, 80, 5, 500),
        ("other", 0, 2_000, 20, 20, 0, 0),
    ]


def test_one_record_behind_is_behind() -> None:
    assert lag(end(1_000, 41), committed(1_000, 40)) == [("delays", 0, 1_000, 40, 41, 1, None)]
    found = lag(end(1_000, 40), end(2_000, 41), committed(2_000, 40))
    assert found == [("delays", 0, 2_000, 40, 41, 1, 1_000)]


def test_a_group_that_is_ahead_of_an_end_that_was_seen_is_not_behind_in_time() -> None:
    # The end was queried before the arrival of the records that the group has already read.
    found = lag(end(1_000, 10), end(3_000, 20), committed(1_000, 15))
    assert [row[3:] for row in found] == [(15, 10, 0, 0), (15, 20, 5, 1_000)]


def test_a_group_that_has_all_is_not_behind_in_time_however_long_nothing_comes() -> None:
    found = lag(end(1_000, 10), end(2_000, 10), end(3_000, 10), committed(1_000, 10))
    assert [row[2:] for row in found] == [(at, 10, 10, 0, 0) for at in (1_000, 2_000, 3_000)]


def test_nothing_gives_nothing() -> None:
    for function, fields in ((timelines.dark, _DARK_IN), (timelines.lag, _LAG_IN)):
        empty = pa.RecordBatch.from_pylist([], schema=pa.schema(fields))
        assert list(function([empty])) == []
    assert dark() == []
    assert lag() == []
    assert lag(end(1_000, 10)) == []
    assert lag(committed(1_000, 10)) == []
