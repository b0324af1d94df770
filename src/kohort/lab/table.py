"""Tables of summaries and goals for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from rich.table import Table

from kohort.lab.goals import MEANING, GoalResult, Row
from kohort.lab.queries import Answered
from kohort.lab.summary import Summary


class Column(NamedTuple):
    """A column: its heading in a terminal, its heading on a page, and what it means."""

    short: str
    name: str
    meaning: str


_DARK = "time in which no member processed a partition, from its owner's stop to the next owner's first record"
_FIRST = "time from a started member's first request to its first partition"
_WALL = "time from a trigger until the group has settled, including the end and the start of processes"
_JOIN = "time from the first request of the last member that a trigger starts until the group has settled"
COLUMNS = (
    Column("dark p50", "dark, median", f"{_DARK}: the median of all partitions and triggers"),
    Column("p99", "dark, 99th percentile", f"{_DARK}: 99 of 100 were dark for at most this long"),
    Column("max", "dark, longest", f"{_DARK}: the longest"),
    Column("dark sum", "dark, sum", "dark time of all partitions after all triggers, mean of the repetitions"),
    Column("pause", "pause, sum", "time in which members could process no partition, sum over the members, mean of"
           " the repetitions"),
    Column("first p50", "first partition, median", f"{_FIRST}: the median of all started members"),
    Column("worst", "first partition, longest", f"{_FIRST}: the longest"),
    Column("wall p50", "settled, median", f"{_WALL}: the median of all triggers"),
    Column("worst", "settled, longest", f"{_WALL}: the longest"),
    Column("join p50", "settled after the last join, median", f"{_JOIN}: the median of all triggers"),
    Column("worst", "settled after the last join, longest", f"{_JOIN}: the longest"),
    Column("restored", "records restored", "changelog records read before new partitions could be processed, mean of"
           " the repetitions"),
    Column("owner/copy/none", "queries: owner / copy / none", "queries for the count of a key: answered by its owner,"
           " by a copy (stale), not answered"),
    Column("unanswered", "longest time without an answer", "longest time without an answer for a partition"),
    Column("reb.", "rebalances per trigger", "rebalances per trigger, as the member with the most saw them"),
    Column("again/committed/skip/order", "records: twice / committed / skipped / disordered", "records read twice, read"
           " twice although a commit had covered them, not read, and read out of order"),
    Column("CPU s", "CPU time of the broker, s", "CPU time of the broker from the first trigger to the end"),
    Column("busy", "load of the machine", "used part of the machine's CPU time; near 100 % all processes wait for a"
           " core, and the figures depend more on that than on the broker"),
)  # fmt: skip


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
        table.add_column(COLUMNS[number].short, justify="right", no_wrap=True)
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


GOAL_COLUMNS = (
    "experiment",
    "protocol",
    "figure",
    "Apache Kafka",
    "goal: at most",
    "Kohort",
    "goal",
    "Kafka + gateway",
)
_GOAL_SIDES: tuple[Literal["left", "right"], ...] = ("left", "left", "left", "right", "right", "right", "left", "left")


def goal_cells(result: GoalResult, first: bool) -> list[str]:
    """Return the values of GOAL_COLUMNS; only the first line of an experiment names it."""
    most = duration(result.goal.most_ms)
    return [
        f"{result.row.name}: {result.row.what}" if first else "", result.goal.protocol, MEANING[result.goal.figure],
        duration(result.kafka_ms), most, duration(result.kohort_ms), result.verdict,
        _through_gateway(result),
    ]  # fmt: skip


def _through_gateway(result: GoalResult) -> str:
    """Return the value of Apache Kafka behind a gateway, and its part of the value without one."""
    value = duration(result.gateway_ms)
    if result.gateway_ms is None or not result.kafka_ms:
        return value
    goal = f", {result.gateway_verdict}" if result.gateway_verdict else ""
    return f"{value} ({result.gateway_ms / result.kafka_ms:.0%}{goal})"


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
