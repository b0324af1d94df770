"""Aggregation of commits before Spark receives them: a combiner on columns.

A run consists of the commits of one group for one partition within one time window. It never spans
a record after which the partition may belong to another member; so the last commit of an old owner
and the first of a new one are both ends of runs. The aggregation is associative: several runs of
the same key are equivalent to one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from kohort.analytics import kernels
from kohort.analytics.numbers import dense
from kohort.analytics.schema import HISTORY, Kind
from kohort.model import Millis

_POSITION_BITS = 42
"""Bits of the position in a number that orders a group's records; 21 bits remain for groups."""


class Runs:
    """Collector of commits (`add`) that `split` separates into runs; `take` returns the runs."""

    def __init__(self, window_ms: Millis) -> None:
        self._window_ms = window_ms
        self._names: list[tuple[str, str]] = []
        self._by_name: dict[tuple[str, str], int] = {}
        self._groups: dict[str, int] = {}
        self._group_of: list[int] = []
        self._splits: defaultdict[int, list[int]] = defaultdict(list)
        self._gathered: list[dict[str, Any]] = []
        self._rows = 0

    def __len__(self) -> int:
        """Return the number of commits gathered."""
        return self._rows

    @property
    def numbers(self) -> int:
        """Number of known pairs of group and topic."""
        return len(self._names)

    def number(self, group_id: str, topic: str) -> int:
        """Return the number that identifies this pair in `add`."""
        known = self._by_name.get((group_id, topic))
        if known is None:
            known = self._by_name[group_id, topic] = len(self._names)
            self._names.append((group_id, topic))
            self._group_of.append(self._groups.setdefault(group_id, len(self._groups)))
        return known

    def name(self, number: int) -> tuple[str, str]:
        """Return group and topic."""
        return self._names[number]

    def split(self, group_id: str, position: int) -> None:
        """End the group's runs at this offset of its shard."""
        self._splits[self._groups.setdefault(group_id, len(self._groups))].append(position)

    def add(self, **columns: Any) -> None:
        """Gather commits: number, partition, shard, position, at (ms) and committed (-1: deleted), as arrays."""
        self._gathered.append(columns)
        self._rows += len(columns["number"])

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield the runs of all gathered commits, and start over."""
        if not self._rows:
            self._splits.clear()
            return
        names = self._gathered[0]
        columns = {name: np.concatenate([run[name] for run in self._gathered]) for name in names}
        pieces = self._pieces(columns)
        windows = dense(columns["at"] // self._window_ms * 2 + (columns["committed"] < 0))
        # Both factors are dense, so their product fits into 63 bits.
        runs = dense(pieces * (int(windows.max()) + 1) + windows)
        self._splits.clear()
        self._gathered, self._rows = [], 0
        yield from self._history(columns, runs, pieces)

    def _pieces(self, columns: dict[str, Any]) -> Any:
        """Return a number for the commits of one group for one partition between two of its splits."""
        series = dense(columns["number"].astype(np.int64) << 32 | columns["partition"])
        if not self._splits:
            return series
        ends = np.sort(
            np.array([group << _POSITION_BITS | at for group, all_at in self._splits.items() for at in all_at])
        )
        groups = np.array(self._group_of, np.int64)[columns["number"]]
        between = np.searchsorted(ends, groups << _POSITION_BITS | columns["position"])
        return dense(series * (len(ends) + 1) + between)

    def _history(self, columns: dict[str, Any], runs: Any, pieces: Any) -> Iterator[pa.RecordBatch]:
        """Yield a row for each run, whose commits are in the order of the log."""
        size = int(runs.max()) + 1
        counts = np.zeros(size, np.int64)
        firsts, lasts, earliest, latest = (np.empty(size, np.int64) for _ in range(4))
        kernels.sum_up(runs, columns["at"], firsts, lasts, counts, earliest, latest)
        first_offsets = columns["committed"][firsts]
        deleted = first_offsets < 0
        numbers = pa.array(columns["number"][firsts])
        known: dict[str, Any] = {
            "kind": pa.repeat(Kind.COMMITS.value, size),
            "shard": columns["shard"][firsts],
            "position": columns["position"][firsts],
            "last_position": columns["position"][lasts],
            "at": earliest,
            "last_at": latest,
            "group_id": pa.array([group for group, _ in self._names]).take(numbers),
            "topic": pa.array([topic for _, topic in self._names]).take(numbers),
            "partition": columns["partition"][firsts],
            "window_at": earliest // self._window_ms * self._window_ms,
            "commits": np.where(deleted, 0, counts),
            "deletions": np.where(deleted, counts, 0),
            "first_offset": pa.array(first_offsets, mask=deleted),
            "last_offset": pa.array(columns["committed"][lasts], mask=deleted),
            "outermost": _outermost(pieces[firsts], ~deleted),
        }
        arrays = [_column(known.get(field.name), field, size) for field in HISTORY]
        yield from pa.Table.from_arrays(arrays, schema=HISTORY).to_batches(max_chunksize=16384)


def _outermost(pieces: Any, counted: Any) -> Any:
    """Return whether a run is the first or last one of its piece, among those that count."""
    found = np.zeros(len(pieces), bool)
    rows = np.flatnonzero(counted)
    _, first = np.unique(pieces[rows], return_index=True)
    _, last = np.unique(pieces[rows][::-1], return_index=True)
    found[rows[first]] = found[rows[len(rows) - 1 - last]] = True
    return found


def _column(found: Any, field: pa.Field[Any], rows: int) -> Any:
    if found is None:
        return pa.nulls(rows, field.type)
    return pa.array(found, field.type) if isinstance(found, np.ndarray) else found.cast(field.type)
