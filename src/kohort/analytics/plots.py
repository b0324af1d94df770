"""Charts of the report, and their SVG to embed in a page. Needs matplotlib."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

from kohort.charts import (
    COLOURS,
    FAINT,
    INK,
    LINE_COLOURS,
    SMALL,
    Page,
    Paint,
    clock_ticks,
    fill,
    legend_height,
    paints,
    text_inches,
)
from kohort.charts import zone as clock_zone

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]

_WIDE, _EDGE, _HEAD, _FOOT = 9.6, 0.4, 0.15, 0.65
"""Width of a chart, and the margins beside, above and below it, in inches."""
_MOST_CAUSES = 7
_OTHER = "other causes"
_UNITS = ((3_600_000, "hours"), (60_000, "minutes"), (1_000, "seconds"), (1, "milliseconds"))


def unit(most: float) -> tuple[int, str]:
    """Return the largest unit of time of which the longest period has at least one, in milliseconds, and its name."""
    return next((found for found in _UNITS if most >= found[0]), _UNITS[-1])


def costs(groups: Sequence[Row], causes: Mapping[str, Sequence[Row]]) -> Figure | None:
    """Draw bars: time for which the partitions of each group waited, by cause; None if none waited."""
    groups = [row for row in groups if row["excess_ms"]]
    if not groups:
        return None
    total: defaultdict[str, int] = defaultdict(int)
    for row in groups:
        for cause in causes[row["group_id"]]:
            total[cause["cause"]] += cause["excess_ms"] or 0
    named = [cause for cause in sorted(total, key=lambda cause: -total[cause]) if total[cause]][:_MOST_CAUSES]
    others = [_OTHER] if sum(total.values()) > sum(total[cause] for cause in named) else []
    fills = dict(zip([*named, *others], paints(_MOST_CAUSES + 1), strict=False))
    page, axes = _chart(0.32 * len(groups), [row["group_id"] for row in groups], list(fills.items()))
    size, name = unit(max(row["excess_ms"] for row in groups))
    left = [0.0] * len(groups)
    for label, paint in fills.items():
        widths = [_share(causes[row["group_id"]], label, named) / size for row in groups]
        axes.barh(range(len(groups)), widths, left=left, label=label, height=0.7, **fill(paint))
        left = [before + width for before, width in zip(left, widths, strict=True)]
    _name_rows(axes, [row["group_id"] for row in groups])
    axes.set_xlabel(f"partition-{name} without a commit, beyond the usual", fontsize=SMALL, color=INK)
    return page.figure


def _share(causes: Sequence[Row], name: str, named: Sequence[str]) -> float:
    mine = (row for row in causes if (row["cause"] == name if name in named else row["cause"] not in named))
    return float(sum(row["excess_ms"] or 0 for row in mine))


def rebalances(counts: Sequence[tuple[str, int, int]], groups: Sequence[str]) -> Figure | None:
    """Draw dots: rebalances of each group over time; the area of a dot is their number."""
    if not counts:
        return None
    shown = {group for group, _, _ in counts}
    order = [group for group in groups if group in shown]
    at = {group: n for n, group in enumerate(order)}
    page, axes = _chart(0.28 * len(order), order, [])
    most = max(times for _, _, times in counts)
    axes.scatter(
        [when for _, when, _ in counts],
        [at[group] for group, _, _ in counts],
        s=[6 + 110 * times / most for _, _, times in counts],
        color=COLOURS[0],
        alpha=0.65,
        linewidths=0,
        clip_on=False,
    )
    _name_rows(axes, order)
    _clock(axes, [when for _, when, _ in counts])
    low, high = axes.get_xlim()
    axes.set_xlim(low - (high - low) * 0.02, high + (high - low) * 0.02)  # a dot at the edge would cover a name
    axes.grid(axis="x", color="#EEEEEE")
    axes.set_axisbelow(True)
    return page.figure


def largest_dot(counts: Iterable[tuple[str, int, int]]) -> int:
    """Return the number of rebalances that the largest dot of `rebalances` represents."""
    return max((times for _, _, times in counts), default=0)


def lag(points: Sequence[tuple[str, int, int]]) -> Figure | None:
    """Draw lines: age of the oldest unprocessed record of each group's worst partition, over time.

    There are as many lines as colours for them.
    """
    if not points:
        return None
    lines: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for group, at, age in points:
        lines[group].append((at, age))
    fills = {group: Paint(colour) for group, colour in zip(lines, LINE_COLOURS, strict=False)}
    page, axes = _chart(2.4, [], list(fills.items()))
    size, name = unit(max(age for _, _, age in points))
    for group, line in lines.items():
        axes.plot(
            [at for at, _ in line], [age / size for _, age in line], color=fills[group].colour, label=group, lw=1.4
        )
    axes.set_ylabel(name, fontsize=SMALL, color=INK)
    axes.set_ylim(bottom=0)
    _clock(axes, [at for _, at, _ in points])
    return page.figure


def rate(points: Sequence[tuple[int, float]]) -> Figure | None:
    """Draw a line: commits per second of all groups."""
    if len(points) < 2:
        return None
    page, axes = _chart(1.6, [], [])
    # Each rate is that of the time up to the next point. The last one is as wide as the first.
    points = [*points, (points[-1][0] + points[1][0] - points[0][0], points[-1][1])]
    rates = [float(per_second) for _, per_second in points]
    axes.plot([at for at, _ in points], rates, color=COLOURS[0], lw=1.2, drawstyle="steps-post")
    axes.set_ylabel("commits per second", fontsize=SMALL, color=INK)
    axes.set_ylim(bottom=0)
    _clock(axes, [at for at, _ in points])
    return page.figure


def svg(figure: Figure) -> str:
    """Return the figure as an element of a page."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def _chart(tall: float, rows: Sequence[str], entries: Sequence[tuple[str, Paint]]) -> tuple[Page, Axes]:
    """Return a chart that has space for the names of its rows, and its legend above it."""
    left = 0.25 + max([0.6, *(text_inches(name, 8) for name in rows)])
    head = _HEAD + (legend_height(entries, _WIDE) if entries else 0)
    page = Page.of(left + _WIDE + _EDGE, head + max(0.4, tall) + _FOOT, 100)
    if entries:
        page.legend(left, _HEAD, _WIDE, entries)
    axes = page.axes(left, head, _WIDE, max(0.4, tall))
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(labelsize=8, colors=INK, length=0)
    axes.tick_params(axis="x", pad=6)
    return page, axes


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), list(names), parse_math=False)
    axes.set_ylim(len(names) - 0.5, -0.5)


def _clock(axes: Axes, times: Sequence[int]) -> None:
    """Label the axis with times in UTC."""
    begin, end = min(times), max(max(times), min(times) + 1000)
    ticks = clock_ticks(begin, end, most=8, local=UTC)
    axes.set_xlim(begin, end)
    axes.set_xticks([tick.at for tick in ticks], [tick.label for tick in ticks])
    axes.set_xlabel(f"time ({clock_zone(begin, end, local=UTC)})", fontsize=SMALL, color=INK)
