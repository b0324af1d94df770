"""Draw a group's partitions over time, coloured by owner, from the journal. Requires matplotlib.

A bar is a member that processes a partition, from its first read until it stops. A black bar is
dark time: the group has members, and none of them processes the partition. A second chart shows the
number of dark partitions. Lines mark rebalances; their numbers refer to the explanations below.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from re import split
from textwrap import wrap
from typing import TYPE_CHECKING

from kohort.charts import (
    DARK,
    FAINT,
    INK,
    SMALL,
    Page,
    Paint,
    clock_ticks,
    draw_bars,
    draw_numbers,
    fill,
    legend_height,
    paints,
    text_inches,
    zone,
)
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
_LEADING = 0.2
"""Height of a line of the explanations, in inches."""
_GROUND, _NOBODY = "#F6F4F1", Paint("#FFFFFF", "////", "#AAAAAA")


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
        import matplotlib  # noqa: F401
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

    left = 0.25 + max([0.8, *(text_inches(str(partition), 8) for partition in partitions)])
    entries = _legend(painted, dark=bool(dark), empty=bool(without_members))
    head = 0.5 + legend_height(entries, _WIDE) + 0.32
    bars = _bars_height(len(partitions))
    height = head + bars + 0.25 + 0.7 + 0.75 + _LEADING * len(below) + 0.2
    width = left + _WIDE + _EDGE
    page = Page.of(width, height, 150)

    page.text(left, 0.34, title or _title(records), fontsize=13, weight="bold")
    page.legend(left, 0.52, _WIDE, entries)
    upper = page.axes(left, head, _WIDE, bars)
    lower = page.axes(left, head + bars + 0.25, _WIDE, 0.7)
    _draw_bars(upper, drawn, dark, partitions, painted, known, begin)
    _draw_darkness(lower, dark, begin, end)
    for axes in (upper, lower):
        axes.set_xlim(0, (end - begin) / 1000)
        for none in without_members:
            axes.axvspan((none.begin - begin) / 1000, (none.end - begin) / 1000, zorder=0, **fill(_NOBODY))
        for mark in shown:
            axes.axvline((mark.at - begin) / 1000, color=INK, linewidth=0.7, alpha=0.75)
    if len(shown) <= MOST_NUMBERED:
        draw_numbers(upper, [(mark.at - begin) / max(1, end - begin) for mark in shown], _WIDE)
    _draw_clock(lower, begin, end)
    top = head + bars + 0.25 + 0.7 + 0.75
    for index, line in enumerate(below):
        page.text(left, top + _LEADING * (index + 0.8), line.number, fontsize=SMALL, weight="bold")
        page.text(left + 0.35, top + _LEADING * (index + 0.8), line.text, fontsize=SMALL)
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


def _wrapped(line: Line, wide: float) -> list[Line]:
    """Return the line in parts that fit into the width; only the first part has the number."""
    columns = max(20, int(0.95 * len(line.text) * wide / max(0.1, text_inches(line.text, SMALL))))
    first, *more = wrap(line.text, columns, replace_whitespace=False, drop_whitespace=True)
    return [Line(line.number, first), *(Line("", part) for part in more)]


def _painted(drawn: Sequence[Span], known: Mapping[str, str]) -> dict[str, Paint]:
    names = sorted({known.get(span.owner, span.owner) for span in drawn}, key=_natural)
    return dict(zip(names, paints(len(names)), strict=True))


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts member-2 before member-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in split(r"(\d+)", name)]


def _legend(painted: Mapping[str, Paint], *, dark: bool, empty: bool) -> list[tuple[str, Paint]]:
    entries = list(painted.items())
    entries += [("dark: no member processes the partition", Paint(DARK))] if dark else []
    return entries + ([("the group has no members", _NOBODY)] if empty else [])


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
        places = [(row[p.partition], (p.begin - begin) / 1000, (p.end - begin) / 1000) for p in periods]
        draw_bars(axes, places, 0.74 if len(partitions) <= 40 else 0.92, paint)

    of_name = defaultdict(list)
    for span in drawn:
        of_name[known.get(span.owner, span.owner)].append(span)
    for name, paint in painted.items():
        bars(of_name[name], paint)
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
    axes.set_xlabel(f"time ({zone(begin, end)})", fontsize=SMALL, color=INK)
