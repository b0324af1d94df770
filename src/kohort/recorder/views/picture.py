"""Draw a group's partitions over time, coloured by owner, from the journal. Requires matplotlib.

A bar is a member that processes a partition, from its first read until it stops. Where there is no
bar, the partition is dark. A second chart shows the number of dark partitions. Numbered lines mark
rebalances, and the text below explains them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from colorsys import hls_to_rgb
from dataclasses import dataclass
from itertools import accumulate
from math import ceil
from pathlib import Path
from re import split
from typing import TYPE_CHECKING

from kohort.errors import KohortError, install_extra
from kohort.model import Millis, TopicPartition
from kohort.recorder.record import PartitionChange, RebalanceRecord
from kohort.recorder.views.member_labels import labels, seconds
from kohort.recorder.views.printing import why

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

# Paul Tol's "bright" and "muted" schemes are distinguishable by colour-blind readers.
_COLOURS = (
    "#4477AA", "#EE8866", "#228833", "#CCBB44", "#AA3377", "#66CCEE", "#882255", "#999933", "#44AA99", "#BBBBBB",
)  # fmt: skip
_INK, _FAINT, _DARK = "#222222", "#888888", "#C0392B"
_MOST_EXPLAINED = 12
_IN_TITLE_LINE, _IN_A_ROW = 6, 9
"""Maximum number of members that the legend lists beside the title, and in each row of its own."""
_MARKER = 0.016
"""Width of a marker as a fraction of the picture."""
_LEFT, _WIDE = 0.085, 0.885


@dataclass(frozen=True, slots=True)
class Span:
    """Period in which a member processes a partition."""

    partition: TopicPartition
    owner: str
    begin: Millis
    end: Millis


def spans(records: Sequence[RebalanceRecord], begin: Millis, end: Millis) -> list[Span]:
    """Return the periods in which members processed partitions, clipped to the given time.

    `records` are in journal order. Owners are member IDs.
    """
    finished: list[Span] = []
    running: dict[TopicPartition, tuple[str, Millis]] = {}
    for record in records:
        for change in record.partitions:
            _apply(change, record, begin, running, finished)
    finished += [Span(partition, owner, since, end) for partition, (owner, since) in running.items()]
    clipped = [Span(s.partition, s.owner, max(s.begin, begin), min(s.end, end)) for s in finished]
    return [span for span in clipped if span.end > span.begin]


def _apply(
    change: PartitionChange,
    record: RebalanceRecord,
    begin: Millis,
    running: dict[TopicPartition, tuple[str, Millis]],
    finished: list[Span],
) -> None:
    partition = TopicPartition(change.topic, change.partition)
    stopped_at = change.revoked_at
    if stopped_at is None and change.owner is None:
        return  # taken by a cooperative assignor, and still processed until the follow-up
    if partition not in running and change.previous_owner is not None:
        running[partition] = change.previous_owner, begin  # the group is older than the journal
    if partition in running:
        owner, since = running.pop(partition)
        finished.append(Span(partition, owner, since, record.ended_at if stopped_at is None else stopped_at))
    if change.owner is not None:
        running[partition] = change.owner, change.first_read_at or change.assigned_at or record.ended_at


def draw(
    records: Sequence[RebalanceRecord],
    path: Path,
    *,
    title: str | None = None,
    begin: Millis | None = None,
    end: Millis | None = None,
) -> None:
    """Write a picture of one group's records; the suffix of `path` selects the format (.png, .svg, .pdf)."""
    if not records:
        raise KohortError("There is nothing to draw: the journal has no rebalance of that group.")
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise KohortError(f"The picture needs matplotlib: {install_extra('pictures')}.") from missing

    begin = min(record.started_at or record.ended_at for record in records) if begin is None else begin
    end = _end(records, begin) if end is None else end
    drawn = spans(records, begin, end)
    partitions = sorted({span.partition for span in drawn})
    known = labels(records)
    colours = _colours(drawn, known)
    explained = _worth_explaining(records)
    levels = _levels([_position(record, begin, end) for record in explained])

    # From top to bottom, in inches: title, legend, markers, bars, dark partitions, explanations.
    legend = 0.0 if len(colours) <= _IN_TITLE_LINE else 0.22 * ceil(len(colours) / _IN_A_ROW)
    head = 0.68 + legend + 0.22 * (1 + max(levels))
    bars, below = _bars_height(len(partitions)), 0.3 + 0.2 * len(explained)
    height = head + bars + 0.25 + 0.7 + 0.5 + below
    figure = Figure(figsize=(12.5, height), dpi=150, facecolor="white")

    def place(top: float, tall: float) -> "Axes":
        return figure.add_axes((_LEFT, 1 - (top + tall) / height, _WIDE, tall / height))

    upper, lower = place(head, bars), place(head + bars + 0.25, 0.7)
    _draw_bars(upper, drawn, partitions, colours, known, begin)
    _draw_darkness(lower, drawn, begin, end)
    _draw_lines((upper, lower), records, begin)
    _draw_markers(upper, [_position(record, begin, end) for record in explained], levels)
    for axes in (upper, lower):
        axes.set_xlim(0, (end - begin) / 1000)
    figure.text(_LEFT, 1 - 0.3 / height, title or _title(records), fontsize=13, weight="bold", color=_INK)
    figure.legend(
        handles=_handles(colours),
        loc="upper right" if not legend else "upper left",
        bbox_to_anchor=(_LEFT + _WIDE, 1 - 0.14 / height) if not legend else (_LEFT, 1 - 0.45 / height),
        ncols=len(colours) if not legend else _IN_A_ROW,
        frameon=False,
        fontsize=8.5,
        handlelength=1.1,
        handleheight=1.0,
        columnspacing=1.4,
        borderpad=0,
    )
    for index, record in enumerate(explained):
        line = f"{index + 1}   {_explained(record, records, known)}"
        figure.text(_LEFT, (below - 0.2 - 0.2 * index) / height, line, fontsize=8.5, color=_INK)
    figure.savefig(path)


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


def _worth_explaining(records: Sequence[RebalanceRecord]) -> list[RebalanceRecord]:
    """Return rebalances that are not follow-ups, in order of time; if there are too many, those with most dark time."""
    begun = [record for record in records if record.follow_up_of is None]
    by_cost = sorted(
        begun, key=lambda record: -sum(c.dark_ms or 0 for part in _whole(record, records) for c in part.partitions)
    )
    chosen = {record.generation for record in by_cost[:_MOST_EXPLAINED]}
    return [record for record in begun if record.generation in chosen][:_MOST_EXPLAINED]


def _position(record: RebalanceRecord, begin: Millis, end: Millis) -> float:
    """Return the position on the time axis, from 0 to 1."""
    return ((record.started_at or record.ended_at) - begin) / max(1, end - begin)


def _levels(positions: Sequence[float]) -> list[int]:
    """Return a row for each marker, so that close neighbours do not overlap; there are at most three rows."""
    levels: list[int] = []
    for index, position in enumerate(positions):
        near = {levels[other] for other in range(index) if position - positions[other] < _MARKER}
        levels.append(min(set(range(3)) - near, default=0))
    return levels or [0]


def _colours(drawn: Sequence[Span], known: Mapping[str, str]) -> dict[str, str]:
    names = sorted({known.get(span.owner, span.owner) for span in drawn}, key=_natural)
    if len(names) <= len(_COLOURS):
        return dict(zip(names, _COLOURS, strict=False))
    # Steps of the golden angle keep neighbouring hues distinct for any number of members.
    return {
        name: "#{:02x}{:02x}{:02x}".format(
            *(round(255 * part) for part in hls_to_rgb(n * 0.618 % 1, 0.4 + n % 3 * 0.13, 0.55))
        )
        for n, name in enumerate(names)
    }


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts member-2 before member-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in split(r"(\d+)", name)]


def _handles(colours: Mapping[str, str]) -> "list[Patch]":
    from matplotlib.patches import Patch

    return [Patch(color=colour, label=name) for name, colour in colours.items()]


def _draw_bars(
    axes: "Axes",
    drawn: Sequence[Span],
    partitions: Sequence[TopicPartition],
    colours: Mapping[str, str],
    known: Mapping[str, str],
    begin: Millis,
) -> None:
    row = {partition: index for index, partition in enumerate(partitions)}
    for name, colour in colours.items():
        mine = [span for span in drawn if known.get(span.owner, span.owner) == name]
        axes.barh(
            [row[span.partition] for span in mine],
            [(span.end - span.begin) / 1000 for span in mine],
            left=[(span.begin - begin) / 1000 for span in mine],
            height=0.74 if len(partitions) <= 40 else 0.92,
            color=colour,
            linewidth=0,
        )
    axes.set_ylim(len(partitions) - 0.45, -0.55)
    step = 1 + len(partitions) // 40
    axes.set_yticks(range(0, len(partitions), step), [str(partition) for partition in partitions[::step]])
    axes.tick_params(axis="both", length=0, labelsize=8, colors=_INK)
    axes.tick_params(axis="x", labelbottom=False)
    axes.set_facecolor("#F6F4F1")
    for side in axes.spines.values():
        side.set_visible(False)


def gaps(drawn: Sequence[Span], end: Millis) -> list[tuple[Millis, Millis]]:
    """Return the dark periods of all partitions. A partition is not dark before its first owner."""
    found: list[tuple[Millis, Millis]] = []
    last: dict[TopicPartition, Millis] = {}
    for span in sorted(drawn, key=lambda span: span.begin):
        if span.partition in last and span.begin > last[span.partition]:
            found.append((last[span.partition], span.begin))
        last[span.partition] = span.end
    return found + [(stopped, end) for stopped in last.values() if stopped < end]


def _draw_darkness(axes: "Axes", drawn: Sequence[Span], begin: Millis, end: Millis) -> None:
    dark = gaps(drawn, end)
    steps = Counter({begin: 0, end: 0})
    steps.update(since for since, _ in dark)
    steps.subtract(until for _, until in dark)
    times = sorted(steps)
    numbers = list(accumulate(steps[at] for at in times))
    axes.fill_between([(at - begin) / 1000 for at in times], numbers, step="post", color=_DARK, linewidth=0)
    most = max(1, *numbers)
    axes.set_ylim(0, most * 1.1)
    axes.set_yticks([0, most])
    axes.set_ylabel("partitions\ndark", fontsize=8, color=_DARK, rotation=0, ha="right", va="center", labelpad=12)
    axes.locator_params(axis="x", nbins=12, integer=True)
    axes.set_xlabel("seconds", fontsize=8.5, color=_INK)
    axes.tick_params(axis="both", length=0, labelsize=8, colors=_INK)
    for name, side in axes.spines.items():
        side.set_visible(name == "bottom")
        side.set_color(_FAINT)


def _draw_lines(both: Iterable["Axes"], records: Sequence[RebalanceRecord], begin: Millis) -> None:
    for axes in both:
        for record in records:
            at = ((record.started_at or record.ended_at) - begin) / 1000
            style = ":" if record.follow_up_of is not None else "-"
            axes.axvline(at, color=_INK, linewidth=0.7, linestyle=style, alpha=0.75)


def _draw_markers(axes: "Axes", positions: Sequence[float], levels: Sequence[int]) -> None:
    for index, (position, level) in enumerate(zip(positions, levels, strict=False)):
        axes.annotate(
            str(index + 1),
            (position, 1),
            xycoords="axes fraction",
            xytext=(0, 9 + 15 * level),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=7.5,
            color="white",
            weight="bold",
            bbox={"boxstyle": "circle,pad=0.28", "facecolor": _INK, "edgecolor": "none"},
        )


def _whole(record: RebalanceRecord, records: Sequence[RebalanceRecord]) -> list[RebalanceRecord]:
    """Return a rebalance and its follow-ups."""
    whole = [record]
    for later in records[records.index(record) + 1 :]:
        if later.follow_up_of is None:
            break
        whole.append(later)
    return whole


def _explained(record: RebalanceRecord, records: Sequence[RebalanceRecord], known: dict[str, str]) -> str:
    """Return the rebalance's cause, and its cost including its follow-ups."""
    whole = _whole(record, records)
    moved = sum(len(part.moved) for part in whole)
    fresh = sum(change.previous_owner is None for part in whole for change in part.partitions)
    dark = [change.dark_ms for part in whole for change in part.partitions if change.dark_ms is not None]
    if not record.members_after:
        return f"{why(record, known)}  –  no member is left"
    cost = f"{fresh} assigned" if fresh and not moved else f"{moved} moved"
    return f"{why(record, known)}  –  {cost}, " + (f"dark for {seconds(max(dark))} at most" if dark else "nothing dark")
