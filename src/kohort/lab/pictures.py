"""The report's figures, drawn with matplotlib: throughput over time, pauses, and partitions by owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kohort.charts import DARK, FAINT, INK, SMALL, Page, Paint, draw_bars, draw_numbers, fill, legend_height, paints
from kohort.lab.lab_group import Trigger
from kohort.lab.measure import Measures
from kohort.lab.series import Series, pauses_ms

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEFT, _WIDE, _PAGE = 0.85, 10.75, 12.0
"""Left margin, width of a chart, and width of a page, in inches."""


def broker_paints(brokers: Sequence[str]) -> dict[str, Paint]:
    """Return a fill for each broker, which all figures of a report share."""
    return dict(zip(sorted(set(brokers)), paints(len(set(brokers))), strict=True))


def throughput_figure(
    lines: Mapping[str, Series], since: str, fills: Mapping[str, Paint], triggers: Mapping[str, Sequence[float]]
) -> Figure:
    """Draw records per second against time since `since`.

    Each broker has a line, with a band of one standard deviation, and a row of triangles above it
    at its triggers, whose times are in seconds.
    """
    entries = [(name, fills[name]) for name in lines]
    head = 0.15 + legend_height(entries, _WIDE)
    rows = 0.16 * len(triggers)
    page = _page(head + rows + 2.35 + 0.55)
    page.legend(_LEFT, 0.12, _WIDE, entries)
    axes = page.axes(_LEFT, head + rows, _WIDE, 2.35)
    for name, series in lines.items():
        low = [max(0.0, mean - off) for mean, off in zip(series.mean, series.deviation, strict=True)]
        high = [mean + off for mean, off in zip(series.mean, series.deviation, strict=True)]
        colour = fills[name].colour
        axes.plot(series.times, series.mean, color=colour, linewidth=1.3, label=name)
        axes.fill_between(series.times, low, high, color=colour, alpha=0.22, linewidth=0)
    for row, (name, times) in enumerate(triggers.items()):
        above = 1 + (0.08 + 0.16 * (len(triggers) - 1 - row)) / 2.35
        axes.plot(times, [above] * len(times), "v", color=fills[name].colour, markersize=6, clip_on=False,
                  transform=axes.get_xaxis_transform(), label=f"triggers of {name}")  # fmt: skip
    if lines and not triggers:
        axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_xlim(min(series.begin_s for series in lines.values()), max(series.times[-1] for series in lines.values()))
    axes.set_xlabel(f"seconds since {since}", fontsize=SMALL, color=INK)
    axes.set_ylabel("records read per second", fontsize=SMALL, color=INK)
    _plain(axes)
    return page.figure


def pauses_figure(groups: Mapping[str, Sequence[Measures]], fills: Mapping[str, Paint], members: int) -> Figure:
    """Draw each member's total pause, sorted, with a colour per broker.

    A bar is the mean of the repetitions. `members` is the size of the group: a member without a
    pause has no bar.
    """
    ranked = {name: [_ranked(repetition) for repetition in repetitions] for name, repetitions in groups.items()}
    most = max([members, *(len(pauses) for same in ranked.values() for pauses in same)])
    heights = {
        name: [sum(pauses[rank] for pauses in same if rank < len(pauses)) / max(1, len(same)) for rank in range(most)]
        for name, same in ranked.items()
    }
    entries = [(f"{name}: {_amount(sum(bars))} in all", fills[name]) for name, bars in heights.items()]
    head = 0.3 + legend_height(entries, _WIDE)
    page = _page(head + 2.0 + 0.55)
    page.legend(_LEFT, 0.12, _WIDE, entries)
    axes = page.axes(_LEFT, head, _WIDE, 2.0)
    width = 0.8 / max(1, len(groups))
    for index, (name, bars) in enumerate(heights.items()):
        places = [rank + (index - (len(groups) - 1) / 2) * width for rank in range(most)]
        axes.bar(places, bars, width * 0.92, label=name, **fill(fills[name]))
    axes.set_ylabel("pause, ms", fontsize=SMALL, color=INK)
    axes.set_xlabel("members, the most paused first", fontsize=SMALL, color=INK)
    axes.set_xlim(-0.6, most - 0.4)
    step = 1 + most // 40
    axes.set_xticks(range(0, most, step), [str(rank + 1) for rank in range(0, most, step)])
    _plain(axes)
    return page.figure


def _ranked(measured: Measures) -> list[float]:
    return sorted((pauses_ms(found) for found in measured.pauses.values()), reverse=True)


def partitions_figure(title: str, measured: Measures, triggers: Sequence[Trigger]) -> Figure:
    """Draw a row per partition with a bar, coloured by member, while a member processes it.

    The dark background shows where no member processes the partition. Numbered lines are the
    triggers.
    """
    rows = sorted({span.partition for span in measured.spans})
    begin = triggers[0].at - 1_000_000_000
    end = max(span.end for span in measured.spans)
    shown = [span for span in measured.spans if span.end > begin]
    names = sorted({span.member for span in shown}, key=lambda name: (len(name), name))
    painted = dict(zip(names, paints(len(names)), strict=True))
    entries = [*painted.items(), ("dark: no member processes the partition", Paint(DARK))]
    tall = max(1.0, min(0.14 * len(rows), 4.5))
    head = 0.42 + legend_height(entries, _WIDE) + 0.32
    page = _page(head + tall + 0.55)
    page.text(_LEFT, 0.28, title, fontsize=10, weight="bold")
    page.legend(_LEFT, 0.42, _WIDE, entries)
    axes = page.axes(_LEFT, head, _WIDE, tall)
    row = {partition: number for number, partition in enumerate(rows)}
    for name, paint in painted.items():
        mine = [span for span in shown if span.member == name]
        places = [
            (row[span.partition], (max(begin, span.begin) - triggers[0].at) / 1e9, (span.end - triggers[0].at) / 1e9)
            for span in mine
        ]
        draw_bars(axes, places, 0.86, paint)
    for trigger in triggers:
        axes.axvline((trigger.at - triggers[0].at) / 1e9, color=INK, linewidth=0.7, alpha=0.7)
    draw_numbers(axes, [(trigger.at - begin) / max(1, end - begin) for trigger in triggers], _WIDE)
    axes.set_xlim((begin - triggers[0].at) / 1e9, (end - triggers[0].at) / 1e9)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_facecolor(DARK)
    step = max(1, -(-len(rows) * 0.15 // tall))
    ticks = range(0, len(rows), int(step))
    axes.set_yticks(ticks, [str(rows[number]) for number in ticks])
    axes.set_ylabel("partition", fontsize=SMALL, color=INK)
    axes.set_xlabel("seconds since the first trigger", fontsize=SMALL, color=INK)
    _plain(axes, grid=False)
    return page.figure


def _page(height: float) -> Page:
    return Page.of(_PAGE, height, 110)


def _plain(axes: Axes, grid: bool = True) -> None:
    axes.tick_params(axis="both", length=0, labelsize=8, colors=INK)
    axes.tick_params(axis="x", pad=6)
    for side in axes.spines.values():
        side.set_visible(False)
    if grid:
        axes.grid(axis="y", color=FAINT, alpha=0.25, linewidth=0.6)
        axes.set_axisbelow(True)


def _amount(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
