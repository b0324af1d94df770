"""Tables of summaries and goals for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.table import Table

from kohort.lab.goals import MEANING, GoalResult, Row
from kohort.lab.queries import Answered
from kohort.lab.summary import Summary

COLUMNS = (
    ("dark p50", "time in which no member processed a partition, median"),
    ("p99", "the same, 99th percentile"),
    ("max", "the same, worst"),
    ("dark sum", "over all partitions and triggers, mean of the repetitions"),
    ("pause", "total time in which members could not process any partition, mean of the repetitions"),
    (
        "first p50",
        "time from a started member's first request to its first partition, median",
    ),
    ("worst", "the same, worst"),
    ("wall p50", "time from a trigger until the group has settled, including the start of processes, median"),
    ("worst", "the same, worst"),
    ("join p50", "time from the join of the last started member until the group has settled, median"),
    ("worst", "the same, worst"),
    ("restored", "changelog records read before new partitions could be processed, mean of the repetitions"),
    ("owner/copy/none", "queries for the count of a key: answered by its owner, by a copy (stale), not answered"),
    ("unanswered", "longest time without an answer for a partition"),
    ("reb.", "rebalances per trigger, as the member with the most saw them"),
    ("again/committed/skip/order", "records read twice, read twice although committed, skipped, read out of order"),
    ("CPU s", "CPU time of the broker from the first trigger to the end"),
    ("busy", "used part of the machine's CPU time; near 100 % all processes wait for a core"),
)
"""Heading and meaning of each column."""


WIDE = 200
"""Width of a terminal that fits all columns, in characters."""
_ALSO_NARROW = (0, 2, 3, 4, 5, 6, 8, 10, 13)
"""Indices of the COLUMNS that a narrower terminal shows, too."""


def summary_table(summaries: Sequence[Summary], width: int = WIDE) -> Table:
    """Return a table with one line per broker, client and protocol.

    A narrow terminal gets the most important columns. Columns without any value are left out.
    """
    shown = [number for number in filled(summaries) if width >= WIDE or number in _ALSO_NARROW]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("scenario", "client", "protocol", "broker"):
        table.add_column(name, no_wrap=True)
    for number in shown:
        table.add_column(COLUMNS[number][0], justify="right", no_wrap=True)
    before: tuple[str, str, str] | None = None
    for summary in summaries:
        kind = summary.scenario, summary.client, summary.protocol
        if before is not None and kind != before:
            table.add_section()
        table.add_row(
            *(kind if kind != before else ("", "", "")), summary.broker, *(cells(summary)[number] for number in shown)
        )
        before = kind
    return table


def filled(summaries: Sequence[Summary]) -> list[int]:
    """Return the indices of the columns that have a value in any line."""
    columns = zip(*map(cells, summaries), strict=True)
    return [number for number, column in enumerate(columns) if any(column)]


def goals_table(found: Sequence[GoalResult]) -> Table:
    """Return a table with one line per goal."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for head, justify in zip(GOAL_COLUMNS, _GOAL_SIDES, strict=True):
        table.add_column(head, justify=justify, no_wrap=head != GOAL_COLUMNS[0])
    before: Row | None = None
    for result in found:
        if before is not None and result.row is not before:
            table.add_section()
        table.add_row(*goal_cells(result, first=result.row is not before))
        before = result.row
    return table


GOAL_COLUMNS = ("experiment", "protocol", "figure", "Apache Kafka", "at most", "Kohort", "")
_GOAL_SIDES: tuple[Literal["left", "right"], ...] = ("left", "left", "left", "right", "right", "right", "left")


def goal_cells(result: GoalResult, first: bool) -> list[str]:
    """Return the values of GOAL_COLUMNS; only the first line of an experiment names it."""
    most = duration(result.goal.most_ms)
    return [
        f"{result.row.name}: {result.row.what}" if first else "", result.goal.protocol, MEANING[result.goal.figure],
        duration(result.kafka_ms), most, duration(result.kohort_ms), result.verdict,
    ]  # fmt: skip


def cells(summary: Summary) -> list[str]:
    """Return the values of COLUMNS."""
    wall = f"> {summary.settle_s:.0f} s" if summary.unsettled else duration(summary.wall_max)
    return [
        *map(duration, (summary.dark_p50, summary.dark_p99, summary.dark_max, summary.dark_sum, summary.pause)),
        *(duration(summary.first_p50), duration(summary.first_max), duration(summary.wall_p50), wall),
        *(duration(summary.after_join_p50), duration(summary.after_join_max)),
        f"{summary.restored:.0f}" if summary.restored else "",
        *_asked(summary.answered),
        f"{summary.rebalances:.1f}",
        f"{summary.duplicated}/{summary.committed_again}/{summary.skipped}/{summary.out_of_order}",
        "" if summary.broker_cpu_s is None else f"{summary.broker_cpu_s:.1f}",
        "" if summary.busy is None else f"{summary.busy:.0%}",
    ]


def _asked(answered: Answered | None) -> tuple[str, str]:
    if answered is None:
        return "", ""
    longest = duration(answered.longest_ms) if answered.none else ""
    return f"{answered.fresh}/{answered.stale}/{answered.none}", longest


def duration(milliseconds: float | None) -> str:
    """Format a duration for people: 12 ms, 1.23 s."""
    if milliseconds is None:
        return ""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.2f} s" if milliseconds < 100_000 else f"{milliseconds / 1000:.0f} s"
