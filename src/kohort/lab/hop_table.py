"""The hops of moved partitions as a table for terminals, and as a table and a waterfall for the report."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kohort.lab.hops import BROKER, EXPERIMENT, NEW, OLD, STEPS, HopSummary, Move, moves, summarise_hops
from kohort.lab.table import duration
from kohort.lab.trial import Outcome

if TYPE_CHECKING:
    from rich.table import Table

HOP_COLUMNS = ("until", "time of", "moves", "mean", "median", "largest", "share")
_COLOURS = {BROKER: "#C0392B", OLD: "#4477AA", NEW: "#228833", EXPERIMENT: "#BBBBBB"}
_MOST_ROWS = 60
"""Maximum number of partitions in a waterfall; a longer one shows the slowest."""


def moves_of(outcomes: Iterable[Outcome]) -> list[Move]:
    """Return the moves of all these trials."""
    return [move for each in outcomes for move in moves(each.events, each.triggers, each.traced)]


def hop_cells(summary: HopSummary) -> list[str]:
    """Return the values of HOP_COLUMNS."""
    times = _exact(summary.mean_ms), _exact(summary.median_ms), _exact(summary.largest_ms)
    return [summary.step, STEPS[summary.step], str(summary.count), *times, f"{summary.share:.0%}"]


def hops_table(title: str, found: Sequence[Move]) -> Table:
    """Return the table of the hops of these moves for a terminal."""
    from rich.table import Table

    table = Table(title=f"{title}: hops of {len(found)} moved partitions, from the trigger on", title_justify="left")
    for number, name in enumerate(HOP_COLUMNS):
        table.add_column(name, justify="left" if number < 2 else "right")
    for summary in summarise_hops(found):
        table.add_row(*hop_cells(summary))
    return table


def hops_html(found: Sequence[Move]) -> str:
    """Return the table and the waterfall for the report; empty if nothing moved."""
    if not found:
        return ""
    heads = "".join(f"<th>{name}</th>" for name in HOP_COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(value)}</td>" for value in hop_cells(summary)) + "</tr>"
        for summary in summarise_hops(found)
    )
    caption = f"Hops of {len(found)} moved partitions, from the trigger to the first record that the new owner read."
    return (
        f"<h4>Hop by hop</h4><p>{caption}</p><div class=wide><table><tr>{heads}</tr>{rows}</table></div>"
        f"{_waterfall(found)}"
    )


def _waterfall(found: Sequence[Move]) -> str:
    """Return a row per partition with a bar per hop."""
    slowest = sorted(found, key=_whole, reverse=True)[:_MOST_ROWS]
    longest = max(1, _whole(slowest[0]))
    rows = []
    for move in slowest:
        bars = "".join(
            f'<i style="width:{(hop.end - hop.begin) / longest:.3%};background:{_COLOURS[STEPS[hop.step]]}"'
            f' title="{html.escape(hop.step)}: {_exact((hop.end - hop.begin) / 1e6)}"></i>'
            for hop in move.hops
        )
        who = html.escape(f"{move.partition}: {move.before} to {move.after}, {_exact(_whole(move) / 1e6)}")
        rows.append(f"<tr><td>{who}</td><td class=bars>{bars}</td></tr>")
    legend = " ".join(f'<i style="background:{colour}"></i> {whose}' for whose, colour in _COLOURS.items())
    return (
        f"<details><summary>waterfall of the slowest {len(slowest)} partitions</summary>"
        f"<p class=bars-legend>{legend}</p><table>{''.join(rows)}</table></details>"
    )


def _whole(move: Move) -> int:
    return move.hops[-1].end - move.hops[0].begin if move.hops else 0


def _exact(milliseconds: float) -> str:
    return f"{milliseconds:.1f} ms" if milliseconds < 10 else duration(milliseconds)
