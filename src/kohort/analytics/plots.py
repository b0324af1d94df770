"""Charts of the report, as SVG to embed in a page. Needs matplotlib."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]

# Paul Tol's "bright" scheme and two more colours: distinct for colour-blind readers, too.
_COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#EE8866", "#BBBBBB")
_HOUR_MS = 3_600_000
_MOST_CAUSES = 7
_UNITS = ((_HOUR_MS, "hours"), (60_000, "minutes"), (1_000, "seconds"))


def costs(groups: Sequence[Row], causes: Mapping[str, Sequence[Row]]) -> str:
    """Draw bars: partition-hours that the partitions of each group waited, by cause."""
    groups = [row for row in groups if row["excess_ms"]]
    if not groups:
        return ""
    figure, axes = _figure(0.32 * len(groups) + 1.4)
    total: defaultdict[str, int] = defaultdict(int)
    for row in groups:
        for cause in causes[row["group_id"]]:
            total[cause["cause"]] += cause["excess_ms"] or 0
    named = sorted(total, key=lambda cause: -total[cause])[:_MOST_CAUSES]
    left = [0.0] * len(groups)
    for colour, name in zip(_COLOURS, [*named, "other"], strict=False):
        widths = [_share(causes[row["group_id"]], name, named) for row in groups]
        if any(widths):
            axes.barh(range(len(groups)), widths, left=left, color=colour, label=name, height=0.7)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(groups)), [row["group_id"] for row in groups])
    axes.invert_yaxis()
    axes.set_xlabel("partition-hours without a commit, beyond the usual")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return _svg(figure)


def _share(causes: Sequence[Row], name: str, named: Sequence[str]) -> float:
    mine = (row for row in causes if (row["cause"] == name if name in named else row["cause"] not in named))
    return sum(row["excess_ms"] or 0 for row in mine) / _HOUR_MS


def rebalances(counts: Sequence[tuple[str, int, int]], groups: Sequence[str]) -> str:
    """Draw dots: rebalances of each group over time; the size of a dot is their number."""
    if not counts:
        return ""
    shown = {group for group, _, _ in counts}
    order = [group for group in groups if group in shown]
    at = {group: n for n, group in enumerate(order)}
    figure, axes = _figure(0.28 * len(order) + 1.1)
    most = max(times for _, _, times in counts)
    axes.scatter(
        [_time(when) for _, when, _ in counts],
        [at[group] for group, _, _ in counts],
        s=[6 + 110 * times / most for _, _, times in counts],
        color=_COLOURS[0],
        alpha=0.65,
        linewidths=0,
    )
    axes.set_yticks(range(len(order)), order)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.grid(axis="x", color="#eeeeee")
    axes.set_title(f"largest dot: {most} rebalances", fontsize=8, loc="right", color="#666666")
    return _svg(figure)


def lag(points: Sequence[tuple[str, int, int]]) -> str:
    """Draw lines: age of the oldest unprocessed record of each group's worst partition, over time."""
    figure, axes = _figure(3.2)
    lines: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for group, at, age in points:
        lines[group].append((at, age))
    worst = max((age for _, _, age in points), default=0)
    size, unit = (
        (_HOUR_MS, "hours") if worst >= 2 * _HOUR_MS else (60_000, "minutes") if worst > 120_000 else (1000, "s")
    )
    for colour, (group, line) in zip(_COLOURS, lines.items(), strict=False):
        axes.plot([_time(at) for at, _ in line], [age / size for _, age in line], color=colour, label=group, lw=1.4)
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    return _svg(figure)


def rate(points: Sequence[tuple[int, float]]) -> str:
    """Draw a line: commits per second of all groups."""
    if len(points) < 2:
        return ""
    figure, axes = _figure(2.2)
    axes.plot(
        [_time(at) for at, _ in points], [float(per_second) for _, per_second in points], color=_COLOURS[0], lw=1.2
    )
    axes.set_ylim(bottom=0)
    return _svg(figure)


def _figure(height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    return figure, axes


def _time(at: int) -> Any:
    """Return the time as a datetime. matplotlib accepts it, but its stubs do not."""
    return datetime.fromtimestamp(at / 1000, UTC)


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
