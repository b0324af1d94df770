"""Draw a group's partitions over time, coloured by owner, from the journal. Requires matplotlib.

A bar is a member that processes a partition, from its first read until it stops. A black bar is
dark time: the group has members, and none of them processes the partition. A second chart shows the
number of dark partitions. Lines mark rebalances; their numbers refer to the explanations below.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from re import split
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from kohort.charts import DARK, FAINT, INK, Paint, clock_ticks, paints, zone
from kohort.errors import KohortError, install_extra
from kohort.model import Millis, TopicPartition
from kohort.recorder.record import RebalanceRecord
from kohort.recorder.views.marks import MOST_NUMBERED, Line, lines, marks
from kohort.recorder.views.member_labels import labels
from kohort.recorder.views.periods import Empty, Gap, Span, empties, gaps, spans

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDE, _EDGE = 10.6, 0.4
"""Width of the charts, and of the margin beside them, in inches."""
_SMALL = 8.5
_ROW, _LEADING = 0.24, 0.2
"""Height of a row of the legend, and of a line of the explanations, in inches."""
_GROUND, _NOBODY = "#F6F4F1", Paint("#FFFFFF", "////", "#AAAAAA")


@dataclass(frozen=True, slots=True)
class _Page:
    """A figure with a place for each part, counted in inches from the upper left corner."""

    figure: "Figure"
    width: float
    height: float

    def axes(self, left: float, top: float, wide: float, tall: float) -> "Axes":
        return self.figure.add_axes(
            (left / self.width, 1 - (top + tall) / self.height, wide / self.width, tall / self.height)
        )

    def text(self, left: float, base: float, text: str, **style: Any) -> None:
        self.figure.text(left / self.width, 1 - base / self.height, text, color=INK, **style)

    def patch(self, left: float, top: float, wide: float, tall: float, paint: Paint) -> None:
        from matplotlib.patches import Rectangle

        corner = left / self.width, 1 - (top + tall) / self.height
        self.figure.add_artist(
            Rectangle(corner, wide / self.width, tall / self.height, transform=self.figure.transFigure, **_style(paint))
        )


def draw(
    records: Sequence[RebalanceRecord],
    path: Path,
    *,
    title: str | None = None,
    begin: Millis | None = None,
    end: Millis | None = None,
) -> None:
    """Write a picture of one group's records; the suffix of `path` selects the format (.png, .svg, .pdf)."""
    picture(records, title=title, begin=begin, end=end).savefig(path)


def picture(
    records: Sequence[RebalanceRecord],
    *,
    title: str | None = None,
    begin: Millis | None = None,
    end: Millis | None = None,
) -> "Figure":
    """Return the picture of one group's records."""
    if not records:
        raise KohortError("There is nothing to draw: the journal has no rebalance of that group.")
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise KohortError(f"The picture needs matplotlib: {install_extra('pictures')}.") from missing

    begin = min(record.started_at or record.ended_at for record in records) if begin is None else begin
    end = _end(records, begin) if end is None else end
    drawn = spans(records, begin, end)
    without_members = [Empty(max(e.begin, begin), min(e.end, end)) for e in empties(records, end) if e.end > begin]
    dark = gaps(drawn, end, without_members)
    partitions = sorted({span.partition for span in drawn})
    known = labels(records)
    painted = _painted(drawn, known)
    shown = [mark for mark in marks(records) if begin <= mark.at <= end]
    below = [line for told in lines(shown, known) for line in _wrapped(told, _WIDE - 0.35)]

    left = 0.25 + max([0.8, *(_inches(str(partition), 8) for partition in partitions)])
    entries = _legend(painted, dark=bool(dark), empty=bool(without_members))
    rows = _rows([_inches(name, _SMALL) for name, _ in entries], _WIDE)
    head = 0.5 + _ROW * len(rows) + 0.32
    bars = _bars_height(len(partitions))
    height = head + bars + 0.25 + 0.7 + 0.75 + _LEADING * len(below) + 0.2
    width = left + _WIDE + _EDGE
    page = _Page(Figure(figsize=(width, height), dpi=150, facecolor="white"), width, height)

    page.text(left, 0.34, title or _title(records), fontsize=13, weight="bold")
    _draw_legend(page, left, entries, rows)
    upper = page.axes(left, head, _WIDE, bars)
    lower = page.axes(left, head + bars + 0.25, _WIDE, 0.7)
    _draw_bars(upper, drawn, dark, partitions, painted, known, begin)
    _draw_darkness(lower, dark, begin, end)
    for axes in (upper, lower):
        axes.set_xlim(0, (end - begin) / 1000)
        for none in without_members:
            axes.axvspan((none.begin - begin) / 1000, (none.end - begin) / 1000, zorder=0, **_style(_NOBODY))
        for mark in shown:
            axes.axvline((mark.at - begin) / 1000, color=INK, linewidth=0.7, alpha=0.75)
    if len(shown) <= MOST_NUMBERED:
        _draw_numbers(upper, [(mark.at - begin) / max(1, end - begin) for mark in shown])
    _draw_clock(lower, begin, end)
    top = head + bars + 0.25 + 0.7 + 0.75
    for index, line in enumerate(below):
        page.text(left, top + _LEADING * (index + 0.8), line.number, fontsize=_SMALL, weight="bold")
        page.text(left + 0.35, top + _LEADING * (index + 0.8), line.text, fontsize=_SMALL)
    return page.figure


def _end(records: Sequence[RebalanceRecord], begin: Millis) -> Millis:
    """Return a time slightly after the last known event; the margin is smaller if the group has become empty."""
    reads = [c.first_read_at for record in records for c in record.partitions if c.first_read_at is not None]
    last = max([record.ended_at for record in records] + reads)
    return last + max(100, (last - begin) // (20 if records[-1].members_after else 100))


def _title(records: Sequence[RebalanceRecord]) -> str:
    return f"{records[0].group_id}: who processes which partition"


def _bars_height(partitions: int) -> float:
    """Return the height in inches; rows are thinner in a large group."""
    return max(0.5, min(0.27 * partitions, 6.0 + 0.03 * partitions))


def _inches(text: str, size: float) -> float:
    """Return the width of a text."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), text.replace("$", r"\$"), prop=FontProperties(size=size)).get_extents().width) / 72


def _wrapped(line: Line, wide: float) -> list[Line]:
    """Return the line in parts that fit into the width; only the first part has the number."""
    columns = max(20, int(0.95 * len(line.text) * wide / max(0.1, _inches(line.text, _SMALL))))
    first, *more = wrap(line.text, columns, replace_whitespace=False, drop_whitespace=True)
    return [Line(line.number, first), *(Line("", part) for part in more)]


def _painted(drawn: Sequence[Span], known: Mapping[str, str]) -> dict[str, Paint]:
    names = sorted({known.get(span.owner, span.owner) for span in drawn}, key=_natural)
    return dict(zip(names, paints(len(names)), strict=True))


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts member-2 before member-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in split(r"(\d+)", name)]


def _style(paint: Paint) -> dict[str, Any]:
    return {
        "facecolor": paint.colour,
        "hatch": paint.hatch or None,
        "edgecolor": paint.hatch_colour if paint.hatch else "none",
        "linewidth": 0,
    }


def _legend(painted: Mapping[str, Paint], *, dark: bool, empty: bool) -> list[tuple[str, Paint]]:
    entries = list(painted.items())
    entries += [("dark: no member processes the partition", Paint(DARK))] if dark else []
    return entries + ([("the group has no members", _NOBODY)] if empty else [])


def _rows(widths: Sequence[float], wide: float) -> list[list[float]]:
    """Return the positions of legend entries, row by row, so that each entry is whole."""
    rows: list[list[float]] = [[]]
    position = 0.0
    for width in widths:
        if rows[-1] and position + 0.25 + width > wide:
            rows.append([])
            position = 0.0
        rows[-1].append(position)
        position += 0.25 + width + 0.3
    return rows


def _draw_legend(
    page: _Page, left: float, entries: Sequence[tuple[str, Paint]], rows: Sequence[Sequence[float]]
) -> None:
    following = iter(entries)
    for index, row in enumerate(rows):
        for position, (name, paint) in zip(row, following, strict=False):
            top = 0.52 + _ROW * index
            page.patch(left + position, top, 0.18, 0.13, paint)
            page.text(left + position + 0.25, top + 0.12, name, fontsize=_SMALL)


def _draw_bars(
    axes: "Axes",
    drawn: Sequence[Span],
    dark: Sequence[Gap],
    partitions: Sequence[TopicPartition],
    painted: Mapping[str, Paint],
    known: Mapping[str, str],
    begin: Millis,
) -> None:
    row = {partition: index for index, partition in enumerate(partitions)}

    def bars(periods: Sequence[Span | Gap], paint: Paint) -> None:
        axes.barh(
            [row[period.partition] for period in periods],
            [(period.end - period.begin) / 1000 for period in periods],
            left=[(period.begin - begin) / 1000 for period in periods],
            height=0.74 if len(partitions) <= 40 else 0.92,
            **_style(paint),
        )

    for name, paint in painted.items():
        bars([span for span in drawn if known.get(span.owner, span.owner) == name], paint)
    bars(dark, Paint(DARK))
    axes.set_ylim(len(partitions) - 0.45, -0.55)
    step = 1 + len(partitions) // 40
    axes.set_yticks(range(0, len(partitions), step), [str(partition) for partition in partitions[::step]])
    axes.tick_params(axis="both", length=0, labelsize=8, colors=INK)
    axes.tick_params(axis="x", labelbottom=False)
    axes.set_facecolor(_GROUND)
    for side in axes.spines.values():
        side.set_visible(False)


def _draw_darkness(axes: "Axes", dark: Iterable[Gap], begin: Millis, end: Millis) -> None:
    steps = Counter({begin: 0, end: 0})
    for gap in dark:
        steps[gap.begin] += 1
        steps[gap.end] -= 1
    times = sorted(steps)
    numbers = list(accumulate(steps[at] for at in times))
    axes.fill_between([(at - begin) / 1000 for at in times], numbers, step="post", color=DARK, linewidth=0)
    most = max(1, *numbers)
    axes.set_ylim(0, most * 1.1)
    axes.set_yticks([0, most])
    axes.set_ylabel("partitions\ndark", fontsize=8, color=INK, rotation=0, ha="right", va="center", labelpad=4)
    axes.tick_params(axis="both", length=0, labelsize=8, colors=INK)
    for name, side in axes.spines.items():
        side.set_visible(name == "bottom")
        side.set_color(FAINT)


def _draw_clock(axes: "Axes", begin: Millis, end: Millis) -> None:
    """Label the axis with the time of day."""
    ticks = clock_ticks(begin, end)
    axes.tick_params(axis="x", pad=6)
    axes.set_xticks([(tick.at - begin) / 1000 for tick in ticks], [tick.label for tick in ticks])
    axes.set_xlabel(f"time ({zone(begin, end)})", fontsize=_SMALL, color=INK)


def _draw_numbers(axes: "Axes", positions: Sequence[float]) -> None:
    """Number the marks. Marks that are too close for a number each share one label, such as 3–5."""
    for numbers, position in _numbered(positions):
        label = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}"
        axes.annotate(
            label,
            (position, 1),
            xycoords="axes fraction",
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=7.5,
            color="white",
            weight="bold",
            bbox={"boxstyle": "round,pad=0.28,rounding_size=0.6", "facecolor": INK, "edgecolor": "none"},
        )


def _numbered(positions: Sequence[float]) -> list[tuple[range, float]]:
    """Return the numbers of each label, and its position from 0 to 1, so that labels do not overlap."""
    merged: list[tuple[range, float]] = []
    for index, position in enumerate(positions):
        numbers, middle = range(index + 1, index + 2), position
        while merged and middle - merged[-1][1] < (_label_width(numbers) + _label_width(merged[-1][0])) / 2:
            numbers = range(merged.pop()[0].start, numbers.stop)
            middle = (positions[numbers.start - 1] + positions[numbers.stop - 2]) / 2
        merged.append((numbers, middle))
    return merged


def _label_width(numbers: range) -> float:
    """Return the width of a label as a fraction of the chart, with a margin."""
    characters = len(str(numbers[0])) + (1 + len(str(numbers[-1])) if len(numbers) > 1 else 0)
    return (0.12 + 0.08 * characters) / _WIDE
