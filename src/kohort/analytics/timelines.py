"""Timelines of partitions: commits, changes of owner and ends of topics, in the order of time.

These tables have as many rows as there are runs of commits. Spark collects all rows of a partition
in one task, where they are sorted and searched as columns, many partitions at once. The same with
windows of Spark SQL took several sorts of wide rows, and five times the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from kohort.analytics.numbers import codes, dense, ranks

DARK_DDL = (
    "group_id STRING, group_type STRING, position BIGINT, at BIGINT, epoch INT, topic STRING, partition INT,"
    " previous_owner STRING, owner STRING, moved BOOLEAN, last_commit_at BIGINT, first_commit_at BIGINT,"
    " dark_ms BIGINT, excess_ms BIGINT"
)
LAG_DDL = (
    "group_id STRING, topic STRING, partition INT, at BIGINT, committed BIGINT, end_offset BIGINT, lag BIGINT,"
    " lag_ms BIGINT"
)
_ROWS_AT_ONCE = 1 << 14

Batches = Iterable[pa.RecordBatch]


def dark(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Return handovers, each with the last commit before it and the first one after it.

    The input has handovers, which have no commits; runs of commits, including those next to a
    handover, none of which spans one; and for each partition the aggregate of all its commits, at
    position -1. `dark_ms` is the time between the two commits. `excess_ms` subtracts the usual time
    between two commits. If several handovers fall between the same two commits, `excess_ms` is
    counted for the first one only, so that sums count no time twice.
    """
    return _whole(batches, _dark)


def lag(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Return the lag of each group at each edge of a window, from its first commit on.

    The input has `offset` and `at` of ends of partitions (`group_id` is null); and, for runs, the
    last committed offset and the next window edge. `position` orders the runs of a window. `lag_ms`
    is the time since the topic ended at the group's offset, interpolated between the two edges
    around it; null if that is before the first known end.
    """
    return _whole(batches, _lag)


def _whole(batches: Batches, function: Callable[[pa.Table], pa.Table]) -> Iterator[pa.RecordBatch]:
    """Apply the function to all rows that Spark has collected, at once."""
    found = list(batches)
    if found:
        table = function(pa.Table.from_batches(found).combine_chunks())
        yield from table.to_batches(max_chunksize=_ROWS_AT_ONCE)


def _dark(table: pa.Table) -> pa.Table:
    numbers = dense(codes(table["group_id"]), codes(table["topic"]), table["partition"].to_numpy())
    order = np.lexsort((table["position"].to_numpy(), numbers))
    series, at, last_at = numbers[order], table["at"].to_numpy()[order], table["last_at"].to_numpy()[order]
    commits, is_whole = table["commits"].to_numpy()[order], table["position"].to_numpy()[order] < 0
    is_run = (commits > 0) & ~is_whole
    before, behind = _neighbours(is_run)
    handed = np.flatnonzero(commits == 0)
    mine, before, behind = series[handed], before[handed], behind[handed]
    left, known_before = last_at[before], (before >= 0) & (series[before] == mine)
    behind = np.minimum(behind, len(series) - 1)
    taken, known_behind = at[behind], is_run[behind] & (series[behind] == mine)
    known = known_before & known_behind

    usual = _usual(
        series[is_whole], at[is_whole], last_at[is_whole], commits[is_whole], int(numbers.max(initial=-1)) + 1
    )
    again = np.zeros(len(handed), bool)
    again[1:] = known_before[1:] & known_before[:-1] & (mine[1:] == mine[:-1]) & (left[1:] == left[:-1])
    excess = np.where(known & ~again, np.maximum(taken - left - usual[mine], 0), 0).astype(np.int64)

    kept = table.take(order[handed]).drop_columns(["last_at", "commits"])
    return (
        kept.append_column("last_commit_at", pa.array(left, mask=~known_before))
        .append_column("first_commit_at", pa.array(taken, mask=~known_behind))
        .append_column("dark_ms", pa.array(taken - left, mask=~known))
        .append_column("excess_ms", pa.array(excess))
    )


def _neighbours(is_run: Any) -> tuple[Any, Any]:
    """Return, for each row, the nearest run at or before it (or -1), and at or after it (or the number of rows)."""
    rows = np.arange(len(is_run))
    before = np.maximum.accumulate(np.where(is_run, rows, -1))
    behind = np.minimum.accumulate(np.where(is_run, rows, len(rows))[::-1])[::-1]
    return before, behind


def _usual(series: Any, first: Any, last: Any, commits: Any, size: int) -> Any:
    """Return the mean time between two commits for each of `size` series; 0 for a series without commits."""
    found = np.zeros(size)
    found[series] = (last - first) / np.maximum(commits - 1, 1)
    return found


def _lag(table: pa.Table) -> pa.Table:
    place = dense(codes(table["topic"]), table["partition"].to_numpy())
    group = codes(table["group_id"])
    at, offset = table["at"].to_numpy(), table["offset"].to_numpy()
    is_end = table["group_id"].is_null().to_numpy()
    moment, moments = ranks(at)
    value, values = ranks(offset)

    # Commits by partition and group in the order of time; of those with the same edge the last counts.
    series = dense(place, group)
    runs = np.flatnonzero(~is_end)
    runs = runs[np.lexsort((table["position"].to_numpy()[runs], moment[runs], series[runs]))]
    begins = np.flatnonzero(np.diff(series[runs], prepend=-1))
    first = runs[begins]

    # For each series, the edges of its partition that are not before its first commit.
    ends = np.flatnonzero(is_end)
    ends = ends[np.lexsort((moment[ends], place[ends]))]
    when = place[ends] * moments + moment[ends]
    lows = np.searchsorted(when, place[first] * moments + moment[first])
    highs = np.searchsorted(when, (place[first] + 1) * moments)
    edge = ends[_spread(lows, highs)]
    mine = np.repeat(first, highs - lows)

    keys = series[runs] * moments + moment[runs]
    run = runs[np.searchsorted(keys, series[mine] * moments + moment[edge], "right") - 1]
    behind = np.maximum(offset[edge] - offset[run], 0)
    age, known = _age(place, at, value, values, offset, ends, edge, run)

    columns = [
        *(table["group_id"].take(mine), table["topic"].take(mine), table["partition"].take(mine)),
        *(pa.array(at[edge]), pa.array(offset[run]), pa.array(offset[edge]), pa.array(behind)),
        pa.array(np.where(behind > 0, age, 0), mask=(behind > 0) & ~known),
    ]
    return pa.table(columns, names=["group_id", "topic", "partition", "at", "committed", "end_offset", "lag", "lag_ms"])


def _spread(lows: Any, highs: Any) -> Any:
    """Return all numbers of the ranges from each low to its high, concatenated."""
    counts = highs - lows
    begins = np.cumsum(counts) - counts
    return np.arange(int(counts.sum())) + np.repeat(lows - begins, counts)


def _age(place: Any, at: Any, value: Any, values: int, offset: Any, ends: Any, edge: Any, run: Any) -> tuple[Any, Any]:
    """Return how long before each edge the partition ended at the offset of its run, and whether that is known.

    The two adjacent known ends are found by offset: the last one that is not above the run's
    offset, and the first one that is. The latter exists if the group is behind; otherwise the
    result is unused.
    """
    ends = ends[np.lexsort((at[ends], value[ends], place[ends]))]
    above = np.searchsorted(place[ends] * values + value[ends], place[run] * values + value[run], "right")
    below = ends[above - 1]
    known = (above > 0) & (place[below] == place[run])
    above = ends[np.minimum(above, len(ends) - 1)]
    part = (offset[run] - offset[below]) / np.maximum(offset[above] - offset[below], 1)
    return (at[edge] - at[below] - part * (at[above] - at[below])).astype(np.int64), known
