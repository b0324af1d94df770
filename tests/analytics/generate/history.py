"""All groups of a made-up history: `write` makes their stories, the log that a broker would have, and the truth."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kohort.broker.groups.coordinator import group_partition
from kohort.model import UUID, Millis
from tests.analytics.generate.shard import Series, write_shard
from tests.analytics.generate.story import DAY, SECOND, Habit, Protocol, Story, hash_of, tell

BEGIN = 1_767_225_600_000
"""The first of January 2026, in UTC."""
_HABITS = {Habit.STEADY: 50, Habit.DEPLOYED: 28, Habit.FLAPPING: 8, Habit.THRASHING: 6, Habit.BEHIND: 8}
_PROTOCOLS = {Protocol.EAGER: 45, Protocol.COOPERATIVE: 30, Protocol.CONSUMER: 25}
_Fields = dict[str, pa.DataType]
_NAMES = ("orders", "payments", "clicks", "flights", "alerts", "invoices", "search", "billing", "audit", "trips")


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the history is to be."""

    commits: int
    """About so many."""
    groups: int
    days: float
    window_ms: Millis
    shards: int = 50
    skew: float = 0.0
    """What part of all commits one group makes on top of its own."""
    seed: int = 1


def write(directory: Path, scale: Scale, told: Callable[[str], None]) -> int:
    """Write `__consumer_offsets-*`, `ends` and `truth` below a directory that has none; how many records there are."""
    stories = list(_stories(scale))
    total = sum(span.end - span.begin for story in stories for spans in story.spans for span in spans)
    interval = total / (scale.commits * (1 - scale.skew))
    shards: dict[int, list[Series]] = defaultdict(list)
    dice = random.Random(scale.seed)
    for story in stories:
        mine = interval
        if scale.skew and story is stories[0]:
            own = sum(span.end - span.begin for spans in story.spans for span in spans)
            mine = own / (scale.commits * scale.skew + own / interval)
        for partition in range(story.partitions):
            series = Series.of(story, partition, mine, dice.random() * mine)
            shards[group_partition(story.group_id, scale.shards)].append(series)
    records = 0
    for done, shard in enumerate(sorted(shards), start=1):
        target = directory / f"__consumer_offsets-{shard}"
        records += write_shard(target, shards[shard], BEGIN, BEGIN + int(scale.days * DAY))
        told(f"{done} of {len(shards)} shards, {records:,} records")
    _write_ends(directory / "ends", stories, scale)
    _write_truth(directory / "truth", stories, [member for some in shards.values() for member in some])
    return records


def _stories(scale: Scale) -> Iterator[Story]:
    dice = random.Random(scale.seed)
    for n in range(scale.groups):
        # The first groups are one of each, so that a small history has them all.
        habits, protocols = list(_HABITS), list(_PROTOCOLS)
        habit = habits[n] if n < len(habits) else dice.choices(habits, list(_HABITS.values()))[0]
        protocol = protocols[n] if n < len(protocols) else dice.choices(protocols, list(_PROTOCOLS.values()))[0]
        name = f"{_NAMES[n % len(_NAMES)]}-{n // len(_NAMES)}"
        people = dice.randrange(2, 8)
        story = Story(
            group_id=f"{name}-{habit}",
            topic=name,
            topic_id=UUID(int=hash_of(name) << 32 | n + 1),
            partitions=people * dice.randrange(1, 4),
            protocol=protocol,
            habit=habit,
            begin=BEGIN,
            end=BEGIN + int(scale.days * DAY),
            rate=dice.choice((2.0, 20.0, 200.0)),
            behind_ms=dice.randrange(1, 5) * SECOND,
            slower=0.2 if habit is Habit.BEHIND else 0.0,
        )
        yield tell(story, people, dice)


def _write_ends(directory: Path, stories: Iterable[Story], scale: Scale) -> None:
    edges = range(BEGIN // scale.window_ms * scale.window_ms, BEGIN + int(scale.days * DAY) + 1, scale.window_ms)
    directory.mkdir()
    fields: _Fields = {"topic": pa.string(), "partition": pa.int32(), "at": pa.int64(), "end_offset": pa.int64()}
    schema = pa.schema(fields)
    with pq.ParquetWriter(directory / "part-0.parquet", schema) as writer:
        for story in stories:
            rows = [(story.topic, n, at, story.end_offset(at)) for n in range(story.partitions) for at in edges]
            writer.write_table(_table(schema, rows))


def _write_truth(directory: Path, stories: Sequence[Story], series: Sequence[Series]) -> None:
    directory.mkdir()
    text, number = pa.string(), pa.int64()
    moves, commits = [], defaultdict[str, int](int)
    for partition_series in series:
        commits[partition_series.story.group_id] += partition_series.commits
        said = [move for move in partition_series.story.moves if move.partition == partition_series.partition]
        for move, last, first in zip(
            said, partition_series.last_before.tolist(), partition_series.first_after.tolist(), strict=True
        ):
            row = (
                partition_series.story.group_id,
                partition_series.story.topic,
                partition_series.partition,
                move.at,
                move.from_member,
                move.to_member,
            )
            moves.append((*row, last if last >= 0 else None, first if first >= 0 else None))
    kinds: dict[str, tuple[_Fields, list[tuple[Any, ...]]]] = {
        "moves": (
            {
                "group_id": text,
                "topic": text,
                "partition": number,
                "at": number,
                "from_member": text,
                "to_member": text,
                "last_commit_at": number,
                "first_commit_at": number,
            },
            moves,
        ),
        "commits": ({"group_id": text, "commits": number}, list(commits.items())),
        "rebalances": (
            {"group_id": text, "at": number, "epoch": number, "cause": text},
            [(s.group_id, g.at, g.epoch, g.cause) for s in stories for g in s.generations if g.cause],
        ),
        "memberships": (
            {"group_id": text, "member_id": text, "client_id": text, "joined_at": number, "left_at": number},
            [row for story in stories for row in _memberships(story)],
        ),
        "flapping": (
            {"group_id": text, "client_id": text},
            [(story.group_id, member) for story in stories for member in sorted(story.flapping)],
        ),
        "thrashing": (
            {"group_id": text, "bursts": number},
            [(story.group_id, story.bursts) for story in stories if story.bursts],
        ),
    }
    for name, (fields, rows) in kinds.items():
        pq.write_table(_table(pa.schema(fields), rows), directory / f"{name}.parquet")


def _memberships(story: Story) -> Iterator[tuple[Any, ...]]:
    joined = {}
    for generation in story.generations:
        for member in generation.came:
            joined[member] = generation.members[member].client_id, generation.at
        for member in generation.went:
            yield (story.group_id, member, *joined.pop(member), generation.at)
    for member, came in joined.items():
        yield (story.group_id, member, *came, None)


def _table(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)
