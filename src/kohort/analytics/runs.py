"""Commits summed up before Spark sees them: what a combiner does, on columns.

A run is one group's commits of one partition within one window of time, and never crosses a record that may have given
the partition to another member; so the last commit of an old owner and the first of a new one are both ends of runs.
Summing up is associative: several runs of the same key are as good as one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.analytics.numbers import dense
from kohort.analytics.schema import HISTORY, Kind
from kohort.model import Millis

_POSITION_BITS = 42
"""Of a number that orders a group's records; leaves 21 bits for groups."""
_FIRST = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)


class Runs:
    """Gathers commits by `add`, learns by `split` where runs end, and gives the runs by `take`."""

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
        """Commits gathered."""
        return self._rows

    @property
    def numbers(self) -> int:
        """How many pairs of group and topic are known."""
        return len(self._names)

    def number(self, group_id: str, topic: str) -> int:
        """The number by which `add` takes this pair."""
        known = self._by_name.get((group_id, topic))
        if known is None:
            known = self._by_name[group_id, topic] = len(self._names)
            self._names.append((group_id, topic))
            self._group_of.append(self._groups.setdefault(group_id, len(self._groups)))
        return known

    def name(self, number: int) -> tuple[str, str]:
        """Group and topic."""
        return self._names[number]

    def split(self, group_id: str, position: int) -> None:
        """End the group's runs at this offset of its shard."""
        self._splits[self._groups.setdefault(group_id, len(self._groups))].append(position)

    def add(self, **columns: Any) -> None:
        """Gather commits: number, partition, shard, position, at (ms) and committed (-1: deleted), as arrays."""
        self._gathered.append(columns)
        self._rows += len(columns["number"])

    def take(self) -> Iterator[pa.RecordBatch]:
        """The runs of all that was gathered; nothing is gathered from here on."""
        if not self._rows:
            self._splits.clear()
            return
        names = self._gathered[0]
        columns = {name: np.concatenate([one[name] for one in self._gathered]) for name in names}
        keys = self._keys(columns)
        deleted = columns["committed"] < 0
        gathered: dict[str, Any] = {
            "key": keys,
            "deleted": deleted,
            "window_at": columns["at"] // self._window_ms * self._window_ms,
            **{name: columns[name] for name in ("number", "partition", "shard", "position", "at")},
        }
        table = pa.table(gathered | {"committed": pa.array(columns["committed"], mask=deleted)})
        # One thread: "first" and "last" mean the order of the rows, which is that of the log.
        runs = table.group_by("key", use_threads=False).aggregate(
            [
                *((name, "first") for name in ("number", "partition", "shard", "window_at")),
                *(("position", "min"), ("position", "max"), ("at", "min"), ("at", "max")),
                *(("committed", "first", _FIRST), ("committed", "last", _FIRST)),
                *(("committed", "count"), ("deleted", "sum")),
            ]
        )
        self._splits.clear()
        self._gathered, self._rows = [], 0
        yield from self._history(runs)

    def _keys(self, columns: dict[str, Any]) -> Any:
        """One number per run. Its three parts are each made dense first, so they fit 63 bits together."""
        series = dense(columns["number"].astype(np.int64) << 32 | columns["partition"])
        windows = dense(columns["at"] // self._window_ms * 2 + (columns["committed"] < 0))
        key = series * (int(windows.max()) + 1) + windows
        if not self._splits:
            return key
        ends = np.sort(
            np.array([group << _POSITION_BITS | at for group, all_at in self._splits.items() for at in all_at])
        )
        groups = np.array(self._group_of, np.int64)[columns["number"]]
        pieces = np.searchsorted(ends, groups << _POSITION_BITS | columns["position"])
        return dense(key) * (len(ends) + 1) + pieces

    def _history(self, runs: pa.Table) -> Iterator[pa.RecordBatch]:
        rows = runs.num_rows
        numbers = runs["number_first"].combine_chunks()
        groups = pa.array([group for group, _ in self._names]).take(numbers)
        topics = pa.array([topic for _, topic in self._names]).take(numbers)
        known: dict[str, Any] = {
            "kind": pa.repeat(Kind.COMMITS.value, rows),
            "group_id": groups,
            "topic": topics,
            "commits": runs["committed_count"],
            "deletions": runs["deleted_sum"],
        }
        known |= {name: runs[column] for name, column in _RENAMED.items()}
        columns = [_column(known.get(field.name), field, rows) for field in HISTORY]
        yield from pa.Table.from_arrays(columns, schema=HISTORY).to_batches(max_chunksize=16384)


_RENAMED = {
    "shard": "shard_first",
    "partition": "partition_first",
    "window_at": "window_at_first",
    "position": "position_min",
    "last_position": "position_max",
    "at": "at_min",
    "last_at": "at_max",
    "first_offset": "committed_first",
    "last_offset": "committed_last",
}


def _column(found: Any, field: pa.Field[Any], rows: int) -> Any:
    return pa.nulls(rows, field.type) if found is None else found.cast(field.type)
