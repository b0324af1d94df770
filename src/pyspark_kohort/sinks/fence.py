"""Decision which rows of a micro-batch a sink accepts. Pure.

A fence records how far a partition is in the store, the id of its topic, and the owner that wrote
the rows. A row is omitted only if the store provably has it, or if its writer provably lost the
partition. If the fence and the writer have nothing in common that would prove either, the query
fails with an explanation: the rows would otherwise be lost silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from kohort.errors import KohortError
from kohort.model import TopicPartition

_NOTHING = np.iinfo(np.int64).max
_KINDS = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}


@dataclass(frozen=True, slots=True)
class QueryClaim:
    """Writer of a partition's rows."""

    owner: str
    """A group with the root of its claims, or a query outside a group. Numbers of two owners cannot be compared."""
    number: int = 0
    """Increases with each query of the owner that gets the partition; outside a group, with each micro-batch.

    A writer with an older number no longer writes anything.
    """
    topic_id: str | None = None
    take_over: bool = False
    """The user confirms that the store's rows of other owners are those of this owner, up to their fence.

    This does not apply to rows of another topic of the same name.
    """


Writers = Mapping[TopicPartition, QueryClaim]


class Sink(Protocol):
    """Store that writes a micro-batch and its fences in one step."""

    def write(self, rows: pa.Table, writers: Writers) -> int:
        """Write the new rows and return their number. A second call with the same rows writes none.

        Raises KohortError if the fences do not show whether the store has a row.
        """
        ...


@dataclass(frozen=True, slots=True)
class Fence:
    """Progress of a partition in a sink: the first offset that the sink does not have, and its last writer.

    A fence without an owner was written by Kohort 0.1: its number is a generation or member epoch
    of an unknown group.
    """

    next: int
    number: int
    owner: str | None = None
    topic_id: str | None = None


def partitions_of(rows: pa.Table) -> list[TopicPartition]:
    """Return the partitions of the rows, sorted.

    Raises KohortError if the rows lack the columns that identify them.
    """
    for name, kind in _KINDS.items():
        if name not in rows.schema.names or rows.schema.field(name).type != kind:
            raise KohortError(f"Exactly once needs the column {name} as the source gives it: keep it in the query.")
        if rows[name].null_count:
            raise KohortError(f"Exactly once needs the column {name} in each row, and there are rows where it is null.")
    pairs: Any = rows.select(["topic", "partition"]).group_by(["topic", "partition"]).aggregate([])
    return sorted(
        TopicPartition(topic, partition)
        for topic, partition in zip(pairs["topic"].to_pylist(), pairs["partition"].to_pylist(), strict=True)
    )


def admitted(
    rows: pa.Table, writers: Writers, fences: Mapping[TopicPartition, Fence]
) -> tuple[pa.Table, dict[TopicPartition, Fence]]:
    """Return the new rows and the fences after them. Raises KohortError if a fence is inconclusive."""
    tps = partitions_of(rows)
    if strange := [tp for tp in tps if tp not in writers]:
        raise KohortError(
            f"There are rows of {strange[0]}, which this micro-batch does not read: exactly once needs the columns"
            " topic, partition and offset as the source gives them."
        )
    numbers = _numbers(rows, tps)
    offsets: Any = rows["offset"].to_numpy()
    firsts = np.full(len(tps), _NOTHING, np.int64)
    np.minimum.at(firsts, numbers, offsets)
    places = [_floor(tp, fences.get(tp), writers[tp], int(first)) for tp, first in zip(tps, firsts, strict=True)]
    floors = np.array(places, np.int64)
    new = offsets >= floors[numbers]
    ends = np.zeros(len(tps), np.int64)
    np.maximum.at(ends, numbers[new], offsets[new] + 1)
    after = {
        tp: Fence(int(end), writers[tp].number, writers[tp].owner, writers[tp].topic_id)
        for tp, end in zip(tps, ends, strict=True)
        if end
    }
    return rows if new.all() else rows.filter(pa.array(new)), after


def _floor(tp: TopicPartition, fence: Fence | None, writer: QueryClaim, first: int) -> int:
    """Return the first offset that the store accepts from that writer, whose rows begin at `first`."""
    if fence is None:
        return 0
    other_topic = None not in (fence.topic_id, writer.topic_id) and fence.topic_id != writer.topic_id
    if fence.owner == writer.owner:
        if fence.number <= writer.number:
            return 0 if other_topic else fence.next
        if not other_topic:
            return _NOTHING  # a later owner of the partition has written, and continues from the group's offset
        # Nothing here shows which of two topics is the later one, nor whether the numbers began again with
        # it.
    elif not other_topic and (writer.take_over or first >= fence.next):
        # Offsets of two topics are never compared, whatever the user confirmed about the earlier one.
        return fence.next
    raise KohortError(_unplaced(tp, fence, writer, first, other_topic=other_topic))


def _unplaced(tp: TopicPartition, fence: Fence, writer: QueryClaim, first: int, *, other_topic: bool) -> str:
    whose = "a writer that Kohort 0.1 did not name" if fence.owner is None else fence.owner
    why = "of another topic of that name" if other_topic else f"by {whose}"
    what = (
        f"The sink has rows of {tp} before offset {fence.next}, {why}, and this query, {writer.owner}, brings rows from"
        f" offset {first} on: the sink may or may not have them. Nothing was written."
    )
    if other_topic:
        return f"{what} Give the sink another name or place, or delete its fences of that topic."
    return (
        f"{what} If they are the same records, start the query with exactly_once(..., take_over=True), which leaves out"
        " what is before the sink's offset. If they are not, give the sink another name or place."
    )


def _numbers(rows: pa.Table, tps: list[TopicPartition]) -> Any:
    """Return the index of each row's partition in `tps`."""
    codes: Any = rows["topic"].combine_chunks().dictionary_encode()
    if isinstance(codes, pa.ChunkedArray):
        codes = codes.combine_chunks()
    partitions: Any = rows["partition"].to_numpy()
    topics, width = codes.dictionary.to_pylist(), int(partitions.max(initial=0)) + 1
    places = np.zeros(max(1, len(topics)) * width, np.int64)
    for place, tp in enumerate(tps):
        places[topics.index(tp.topic) * width + tp.partition] = place
    return places[codes.indices.to_numpy() * width + partitions]
