"""From two offsets to Spark's tasks: how far a batch goes, which ranges it reads, how they share tasks. Pure."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kohort.model import TopicPartition
from pyspark_kohort.offsets import Offset, Positions

ROWS_WORTH_A_TASK = 20_000
"""A Python task costs its slot 30 to 60 ms before the first row, which is what some 20,000 rows cost."""
ROWS_ENOUGH_FOR_A_TASK = 500_000
"""From here on a task's own cost is below a twentieth, so larger batches get more tasks than this host has cores."""


@dataclass(frozen=True, slots=True)
class Range:
    """Records of one partition: from `start` up to, not including, `until`."""

    topic: str
    partition: int
    start: int
    until: int
    topic_id: str | None = None
    """Of the topic that has these records; None where the broker tells no ids."""

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        return self.until - self.start


def limited(begins: Positions, ends: Positions, rows: int | None) -> dict[TopicPartition, int]:
    """Where a batch of at most about `rows` ends: each partition gets its share of what is there, at least one record.

    The proportions and their rounding are spark-sql-kafka's.
    """
    sizes = {tp: max(0, ends[tp] - begin) for tp, begin in begins.items() if tp in ends}
    total = sum(sizes.values())
    if rows is None or total <= rows:
        return {tp: begins[tp] + size for tp, size in sizes.items()}
    return {tp: begins[tp] + _share(size, total, rows) for tp, size in sizes.items()}


def _share(size: int, total: int, rows: int) -> int:
    exact = rows * size / total
    return min(size, math.ceil(exact) if exact < 1 else math.floor(exact))


def advanced(start: Offset, begins: Positions, ends: Positions, *, back: bool = False) -> Offset:
    """The offset of a batch that reads from `begins` to `ends`; `start` itself where it would read nothing.

    A new partition without records gets into the offset with the next batch that has some: alone it would change the
    text, and Spark would run an empty batch for it. With `back` a partition that begins before its position in `start`
    is worth an empty batch: records that arrive before the checkpoint has the new position would be skipped.
    """
    moved = back and any(begin < start.positions.get(tp, begin) for tp, begin in begins.items())
    if not moved and all(ends[tp] <= begin for tp, begin in begins.items()):
        return start
    return Offset(
        positions={tp: max(begin, ends[tp]) for tp, begin in begins.items()},
        pins={tp: begin for tp, begin in begins.items() if start.positions.get(tp) != begin},
    )


def ranges(start: Offset, end: Offset) -> list[Range]:
    """What the batch between two offsets reads, without the partitions that have nothing to read."""
    found = []
    for tp in sorted(end.positions):
        begin = end.pins.get(tp, start.positions.get(tp))
        until = end.positions[tp]
        if begin is not None and begin < until:
            found.append(Range(tp.topic, tp.partition, begin, until, end.topic_ids.get(tp.topic)))
    return found


def clipped(planned: Iterable[Range], begins: Positions) -> list[Range]:
    """What of a replayed batch is still this member's to read: what it owns, from where the group has not gone on."""
    return [
        replace(part, start=begin)
        for part in planned
        if part.tp in begins and (begin := max(part.start, begins[part.tp])) < part.until
    ]


def split(planned: Sequence[Range], least: int, most_rows: int | None = None) -> list[Range]:
    """Cut large ranges until there are about `least` of them and none has more than `most_rows`."""
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
    """How many tasks a batch is worth: few for few rows, for a task is dear; never more than there are ranges."""
    rows = sum(part.size for part in planned)
    wanted = max(min(cores, math.ceil(rows / ROWS_WORTH_A_TASK)), math.ceil(rows / ROWS_ENOUGH_FOR_A_TASK))
    return max(1, min(wanted, len(planned)))


def tasks(
    planned: Sequence[Range], *, cores: int, most: int | None, least: int | None, most_rows: int | None
) -> list[tuple[Range, ...]]:
    """The ranges of each task: at most `most` tasks, else at least `least` of them where there are as many records."""
    pieces = split(planned, least or 0, most_rows)
    count = max(least or 0, tasks_for(pieces, cores))
    return packed(pieces, min(count, most or count))


def packed(planned: Sequence[Range], tasks: int) -> list[tuple[Range, ...]]:
    """Share the ranges among at most that many tasks, the largest first to the task that has least."""
    loads = [0] * min(tasks, len(planned))
    parts: list[list[Range]] = [[] for _ in loads]
    for part in sorted(planned, key=lambda part: -part.size):
        least = loads.index(min(loads))
        loads[least] += part.size
        parts[least].append(part)
    return [tuple(sorted(part, key=lambda part: (part.topic, part.partition, part.start))) for part in parts]


def behind(positions: Positions, ends: Mapping[TopicPartition, int]) -> int:
    """Records between the positions and the ends."""
    return sum(max(0, ends[tp] - position) for tp, position in positions.items() if tp in ends)
