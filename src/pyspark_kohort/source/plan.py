"""Plan of a batch: where it ends, which ranges it reads, and how tasks share them. Pure."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kohort.model import TopicPartition
from pyspark_kohort.offsets import Offset, Positions

ROWS_WORTH_A_TASK = 20_000
"""Number of rows that justify a task.

A Python task takes 30 to 60 ms before its first row, as long as about 20,000 rows take.
"""
ROWS_ENOUGH_FOR_A_TASK = 500_000
"""Number of rows above which a task's own cost is below a twentieth.

So larger batches get more tasks than this host has cores.
"""


@dataclass(frozen=True, slots=True)
class Range:
    """Records of one partition, from `start` up to but excluding `until`."""

    topic: str
    partition: int
    start: int
    until: int
    topic_id: str | None = None
    """Id of the topic that has these records; None if the broker sends no ids."""

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        return self.until - self.start


def limited_ends(begins: Positions, ends: Positions, rows: int | None) -> dict[TopicPartition, int]:
    """Return the ends of a batch of at most about `rows` records.

    Each partition gets its share of the available records, at least one. The proportions and their
    rounding are those of spark-sql-kafka.
    """
    sizes = {tp: max(0, ends[tp] - begin) for tp, begin in begins.items() if tp in ends}
    total = sum(sizes.values())
    if rows is None or total <= rows:
        return {tp: begins[tp] + size for tp, size in sizes.items()}
    return {tp: begins[tp] + _share(size, total, rows) for tp, size in sizes.items()}


def _share(size: int, total: int, rows: int) -> int:
    exact = rows * size / total
    return min(size, math.ceil(exact) if exact < 1 else math.floor(exact))


def advanced_offset(start: Offset, begins: Positions, ends: Positions, *, back: bool = False) -> Offset:
    """Return the offset of a batch that reads from `begins` to `ends`, or `start` itself if there is nothing to read.

    A new partition without records is added to the offset with the next batch that has records: on
    its own it would change the text, and Spark would run an empty batch for it. With `back`, a
    partition that begins before its position in `start` justifies an empty batch: without it,
    records that arrive before the checkpoint has the new position would be skipped.
    """
    moved = back and any(begin < start.positions.get(tp, begin) for tp, begin in begins.items())
    if not moved and all(ends[tp] <= begin for tp, begin in begins.items()):
        return start
    return Offset(
        positions={tp: max(begin, ends[tp]) for tp, begin in begins.items()},
        pins={tp: begin for tp, begin in begins.items() if start.positions.get(tp) != begin},
    )


def planned_ranges(start: Offset, end: Offset) -> list[Range]:
    """Return the ranges that the batch between two offsets reads, without empty ones."""
    found = []
    for tp in sorted(end.positions):
        begin = end.pins.get(tp, start.positions.get(tp))
        until = end.positions[tp]
        if begin is not None and begin < until:
            found.append(Range(tp.topic, tp.partition, begin, until, end.topic_ids.get(tp.topic)))
    return found


def clipped_ranges(planned: Iterable[Range], begins: Positions) -> list[Range]:
    """Return the ranges of a replayed batch that this member still has to read.

    These are the ranges of partitions that it owns, from the group's position on.
    """
    return [
        replace(part, start=begin)
        for part in planned
        if part.tp in begins and (begin := max(part.start, begins[part.tp])) < part.until
    ]


def split(planned: Sequence[Range], least: int, most_rows: int | None = None) -> list[Range]:
    """Cut large ranges until there are about `least` ranges and none has more than `most_rows` records."""
    if most_rows is not None:
        planned = [piece for part in planned for piece in _cut(part, math.ceil(part.size / most_rows))]
    if len(planned) >= least:
        return list(planned)
    total = sum(part.size for part in planned)
    return [piece for part in planned for piece in _cut(part, max(1, round(part.size / total * least)))]


def _cut(part: Range, pieces: int) -> Iterable[Range]:
    pieces = min(pieces, part.size)
    edges = [part.start + part.size * i // pieces for i in range(pieces + 1)]
    return (replace(part, start=begin, until=until) for begin, until in itertools.pairwise(edges))


def tasks_for(planned: Sequence[Range], cores: int) -> int:
    """Return the number of tasks for a batch: few for few rows, because a task is expensive; at most one per range."""
    rows = sum(part.size for part in planned)
    wanted = max(min(cores, math.ceil(rows / ROWS_WORTH_A_TASK)), math.ceil(rows / ROWS_ENOUGH_FOR_A_TASK))
    return max(1, min(wanted, len(planned)))


def tasks(
    planned: Sequence[Range], *, cores: int, most: int | None, least: int | None, most_rows: int | None
) -> list[tuple[Range, ...]]:
    """Return the ranges of each task: at most `most` tasks, otherwise at least `least` if there are enough records."""
    pieces = split(planned, least or 0, most_rows)
    count = max(least or 0, tasks_for(pieces, cores))
    return packed(pieces, min(count, most or count))


def packed(planned: Sequence[Range], tasks: int) -> list[tuple[Range, ...]]:
    """Share the ranges among at most `tasks` tasks, the largest range first, to the task with the least records."""
    loads = [0] * min(tasks, len(planned))
    parts: list[list[Range]] = [[] for _ in loads]
    for part in sorted(planned, key=lambda part: -part.size):
        least = loads.index(min(loads))
        loads[least] += part.size
        parts[least].append(part)
    return [tuple(sorted(part, key=lambda part: (part.topic, part.partition, part.start))) for part in parts]


def behind(positions: Positions, ends: Mapping[TopicPartition, int]) -> int:
    """Return the number of records between the positions and the ends."""
    return sum(max(0, ends[tp] - position) for tp, position in positions.items() if tp in ends)
