"""Which rows of a micro-batch a sink takes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from kohort.errors import KohortError
from kohort.model import TopicPartition

Epochs = Mapping[TopicPartition, int]
"""The generation or member epoch in which each partition was its writer's; none outside a group."""

_NOTHING = np.iinfo(np.int64).max
_KINDS = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}


class Sink(Protocol):
    """A store that writes a micro-batch and its fences in one step."""

    def write(self, rows: pa.Table, epochs: Epochs) -> int:
        """Write what is new of the rows; how many that were. Called again with the same rows it writes none."""
        ...


@dataclass(frozen=True, slots=True)
class Fence:
    """What a sink knows of a partition: the first offset that it does not have, and the last writer's epoch."""

    next: int
    epoch: int


def partitions_of(rows: pa.Table) -> list[TopicPartition]:
    """The partitions that the rows come from, sorted. Raises KohortError where the rows do not say."""
    for name, kind in _KINDS.items():
        if name not in rows.schema.names or rows.schema.field(name).type != kind:
            raise KohortError(f"Exactly once needs the column {name} as the source gives it: keep it in the query.")
    pairs: Any = rows.select(["topic", "partition"]).group_by(["topic", "partition"]).aggregate([])
    return sorted(
        TopicPartition(topic, partition)
        for topic, partition in zip(pairs["topic"].to_pylist(), pairs["partition"].to_pylist(), strict=True)
    )


def admitted(
    rows: pa.Table, epochs: Epochs, fences: Mapping[TopicPartition, Fence]
) -> tuple[pa.Table, dict[TopicPartition, Fence]]:
    """The rows that are new, and the fences behind them; nothing of a partition that a later epoch has written."""
    tps = partitions_of(rows)
    numbers = _numbers(rows, tps)
    floors = np.array([_floor(fences.get(tp), epochs.get(tp, 0)) for tp in tps], np.int64)
    offsets: Any = rows["offset"].to_numpy()
    new = offsets >= floors[numbers] if tps else np.zeros(0, bool)
    ends = np.zeros(len(tps), np.int64)
    np.maximum.at(ends, numbers[new], offsets[new] + 1)
    after = {tp: Fence(int(end), epochs.get(tp, 0)) for tp, end in zip(tps, ends, strict=True) if end}
    return rows if new.all() else rows.filter(pa.array(new)), after


def _floor(fence: Fence | None, epoch: int) -> int:
    if fence is None:
        return 0
    return _NOTHING if fence.epoch > epoch else fence.next


def _numbers(rows: pa.Table, tps: list[TopicPartition]) -> Any:
    """The place of each row's partition in the list."""
    codes: Any = rows["topic"].combine_chunks().dictionary_encode()
    if isinstance(codes, pa.ChunkedArray):
        codes = codes.combine_chunks()
    partitions: Any = rows["partition"].to_numpy()
    topics, width = codes.dictionary.to_pylist(), int(partitions.max(initial=0)) + 1
    places = np.zeros(max(1, len(topics)) * width, np.int64)
    for place, tp in enumerate(tps):
        places[topics.index(tp.topic) * width + tp.partition] = place
    return places[codes.indices.to_numpy() * width + partitions]
