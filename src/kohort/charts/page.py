"""A figure whose parts have places in inches, with a legend of whole names. Requires matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kohort.charts.palette import INK, Paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMALL = 8.5
"""Size of the texts of a picture, in points."""
ROW = 0.24
"""Height of a row of a legend, in inches."""


@dataclass(frozen=True, slots=True)
class Page:
    """A figure with a place for each part, in inches from the upper left corner."""

    figure: Figure
    width: float
    height: float

    @classmethod
    def of(cls, width: float, height: float, dpi: int) -> Page:
        """Return an empty page."""
        from matplotlib.figure import Figure

        return cls(Figure(figsize=(width, height), dpi=dpi, facecolor="white"), width, height)

    def axes(self, left: float, top: float, wide: float, tall: float) -> Axes:
        """Add a chart."""
        return self.figure.add_axes(
            (left / self.width, 1 - (top + tall) / self.height, wide / self.width, tall / self.height)
        )

    def text(self, left: float, base: float, text: str, **style: Any) -> None:
        """Add a text. A dollar sign is one, and not the begin of a formula."""
        self.figure.text(left / self.width, 1 - base / self.height, text, color=INK, parse_math=False, **style)

    def legend(self, left: float, top: float, wide: float, entries: Sequence[tuple[str, Paint]]) -> None:
        """Add a legend in as many rows as it needs; `legend_height` returns their height."""
        following = iter(entries)
        for index, row in enumerate(_rows(entries, wide)):
            for position, (name, paint) in zip(row, following, strict=False):
                self._patch(left + position, top + ROW * index, 0.18, 0.13, paint)
                self.text(left + position + 0.25, top + ROW * index + 0.12, name, fontsize=SMALL)

    def _patch(self, left: float, top: float, wide: float, tall: float, paint: Paint) -> None:
        from matplotlib.patches import Rectangle

        corner = left / self.width, 1 - (top + tall) / self.height
        placed = self.figure.transFigure
        self.figure.add_artist(
            Rectangle(corner, wide / self.width, tall / self.height, transform=placed, **fill(paint))
        )


def legend_height(entries: Sequence[tuple[str, Paint]], wide: float) -> float:
    """Return the height of a legend, in inches."""
    return ROW * len(_rows(entries, wide))


def _rows(entries: Sequence[tuple[str, Paint]], wide: float) -> list[list[float]]:
    """Return the positions of the entries, row by row, so that each entry is whole."""
    rows: list[list[float]] = [[]]
    position = 0.0
    for name, _ in entries:
        width = 0.25 + text_inches(name, SMALL)
        if rows[-1] and position + width > wide:
            rows.append([])
            position = 0.0
        rows[-1].append(position)
        position += width + 0.3
    return rows


def text_inches(text: str, size: float) -> float:
    """Return the width of a text."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), text.replace("$", r"\$"), prop=FontProperties(size=size)).get_extents().width) / 72


def fill(paint: Paint) -> dict[str, Any]:
    """Return matplotlib's arguments for a bar with this fill."""
    return {
        "facecolor": paint.colour,
        "hatch": paint.hatch or None,
        "edgecolor": paint.hatch_colour if paint.hatch else "none",
        "linewidth": 0,
    }


def draw_bars(axes: Axes, bars: Sequence[tuple[int, float, float]], height: float, paint: Paint) -> None:
    """Draw horizontal bars, given as row, begin and end, as one object: a large group has tens of thousands."""
    from matplotlib.collections import PolyCollection

    half = height / 2
    corners = [
        [(begin, row - half), (end, row - half), (end, row + half), (begin, row + half)] for row, begin, end in bars
    ]
    axes.add_collection(PolyCollection(corners, **fill(paint)), autolim=False)


def draw_numbers(axes: Axes, positions: Sequence[float], wide: float) -> None:
    """Number the marks at these positions above a chart, from 1; positions are from 0 to 1, in ascending order.

    Marks that are too close for a number each share one label, such as 3–5. `wide` is the width of
    the chart in inches.
    """
    for numbers, position in _numbered(positions, wide):
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


def _numbered(positions: Sequence[float], wide: float) -> list[tuple[range, float]]:
    """Return the numbers of each label, and its position, so that labels do not overlap."""
    merged: list[tuple[range, float]] = []
    for index, position in enumerate(positions):
        numbers, middle = range(index + 1, index + 2), position
        while merged and (middle - merged[-1][1]) * wide < (_label_inches(numbers) + _label_inches(merged[-1][0])) / 2:
            numbers = range(merged.pop()[0].start, numbers.stop)
            middle = (positions[numbers.start - 1] + positions[numbers.stop - 2]) / 2
        merged.append((numbers, middle))
    return merged


def _label_inches(numbers: range) -> float:
    """Return the width of a label, with a margin."""
    characters = len(str(numbers[0])) + (1 + len(str(numbers[-1])) if len(numbers) > 1 else 0)
    return 0.12 + 0.08 * characters
