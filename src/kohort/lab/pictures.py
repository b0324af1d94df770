"""The report's figures, drawn with matplotlib: throughput over time, pauses, and partitions by owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kohort.errors import KohortError, install_extra
from kohort.lab.lab_group import Trigger
from kohort.lab.measure import Measures
from kohort.lab.series import Series, pauses_ms

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT, DARK = "#222222", "#888888", "#C0392B"
# Paul Tol's "bright" scheme, which colour-blind readers can distinguish, too.
COLOURS = ("#4477AA", "#EE8866", "#228833", "#AA3377", "#66CCEE", "#CCBB44")
_OWNERS = (
    "#4477AA", "#EE8866", "#228833", "#CCBB44", "#AA3377", "#66CCEE", "#882255", "#999933", "#44AA99", "#BBBBBB",
)  # fmt: skip
_WIDE = 12.0


def throughput_figure(lines: Mapping[str, Series], since: str) -> Figure:
    """Draw records per second against time since `since`.

    Each broker has a line, with a band of one standard deviation.
    """
    figure = _figure(3.2)
    axes = figure.add_axes((0.07, 0.16, 0.91, 0.72))
    for (name, series), colour in zip(lines.items(), COLOURS, strict=False):
        low = [max(0.0, mean - off) for mean, off in zip(series.mean, series.deviation, strict=True)]
        high = [mean + off for mean, off in zip(series.mean, series.deviation, strict=True)]
        axes.plot(series.times, series.mean, color=colour, linewidth=1.3, label=name)
        axes.fill_between(series.times, low, high, color=colour, alpha=0.22, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.set_xlim(min(series.begin_s for series in lines.values()), max(series.times[-1] for series in lines.values()))
    axes.set_xlabel(f"seconds since {since}", fontsize=8.5, color=INK)
    axes.set_ylabel("records read per second", fontsize=8.5, color=INK)
    _legend(figure, axes)
    _plain(axes)
    return figure


def pauses_figure(groups: Mapping[str, Sequence[Measures]]) -> Figure:
    """Draw each member's total pause, sorted, with a colour per broker.

    A bar is the mean of the repetitions.
    """
    figure = _figure(2.8)
    axes = figure.add_axes((0.07, 0.17, 0.91, 0.69))
    width = 0.8 / max(1, len(groups))
    for index, ((name, repetitions), colour) in enumerate(zip(groups.items(), COLOURS, strict=False)):
        ranked = [
            sorted((pauses_ms(found) for found in repetition.pauses.values()), reverse=True)
            for repetition in repetitions
        ]
        members = max(map(len, ranked), default=0)
        heights = [
            sum(pauses[rank] for pauses in ranked if rank < len(pauses)) / len(ranked) for rank in range(members)
        ]
        total = sum(heights)
        places = [rank + index * width for rank in range(members)]
        axes.bar(places, heights, width * 0.92, color=colour, label=f"{name}: {_amount(total)} in all")
    axes.set_ylabel("pause, ms", fontsize=8.5, color=INK)
    axes.set_xlabel("members, the most paused first", fontsize=8.5, color=INK)
    axes.set_xticks([])
    _legend(figure, axes)
    _plain(axes)
    return figure


def partitions_figure(title: str, measured: Measures, triggers: Sequence[Trigger]) -> Figure:
    """Draw a row per partition with a bar, coloured by member, while a member processes it.

    The dark background shows where no member processes the partition.
    """
    rows = sorted({span.partition for span in measured.spans})
    height = 0.9 + max(1.0, min(0.14 * len(rows), 4.5))
    figure = _figure(height)
    axes = figure.add_axes((0.07, 0.5 / height, 0.91, 1 - 0.9 / height))
    begin = triggers[0].at - 1_000_000_000
    end = max(span.end for span in measured.spans)
    row = {partition: number for number, partition in enumerate(rows)}
    names = sorted({span.member for span in measured.spans}, key=lambda name: (len(name), name))
    for number, name in enumerate(names):
        mine = [span for span in measured.spans if span.member == name and span.end > begin]
        axes.barh(
            [row[span.partition] for span in mine],
            [(span.end - max(begin, span.begin)) / 1e9 for span in mine],
            left=[(max(begin, span.begin) - triggers[0].at) / 1e9 for span in mine],
            height=0.86,
            color=_OWNERS[number % len(_OWNERS)],
            linewidth=0,
        )
    for trigger in triggers:
        axes.axvline((trigger.at - triggers[0].at) / 1e9, color=INK, linewidth=0.7, alpha=0.7)
    axes.set_xlim((begin - triggers[0].at) / 1e9, (end - triggers[0].at) / 1e9)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_facecolor("#2B2B2B")
    axes.set_yticks([])
    axes.set_ylabel(f"{len(rows)} partitions", fontsize=8.5, color=INK)
    axes.set_xlabel("seconds since the first trigger (lines: triggers; black: no member processes the partition)",
                    fontsize=8.5, color=INK)  # fmt: skip
    figure.text(0.07, 1 - 0.28 / height, title, fontsize=10, weight="bold", color=INK)
    _plain(axes, grid=False)
    return figure


def _figure(height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise KohortError(f"The report needs matplotlib: {install_extra('lab')}.") from missing
    return Figure(figsize=(_WIDE, height), dpi=110, facecolor="white")


def _legend(figure: Figure, axes: Axes) -> None:
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="upper left", bbox_to_anchor=(0.065, 0.99), ncols=len(names), frameon=False,
                  fontsize=9, handlelength=1.2, borderpad=0)  # fmt: skip


def _plain(axes: Axes, grid: bool = True) -> None:
    axes.tick_params(axis="both", length=0, labelsize=8, colors=INK)
    for side in axes.spines.values():
        side.set_visible(False)
    if grid:
        axes.grid(axis="y", color=FAINT, alpha=0.25, linewidth=0.6)
        axes.set_axisbelow(True)


def _amount(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
