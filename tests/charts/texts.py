"""Where the texts of a figure are, as matplotlib draws them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text


def texts(figure: Figure) -> list[Text]:
    """All texts that a reader sees."""
    from matplotlib.text import Text as Kind

    figure.draw_without_rendering()
    found = [text for text in figure.findobj(Kind) if isinstance(text, Kind)]
    hidden = set(map(id, _beyond(figure)))
    return [text for text in found if text.get_visible() and text.get_text().strip() and id(text) not in hidden]


def _beyond(figure: Figure) -> Iterator[Text]:
    """Labels of ticks beyond the ends of their axis, which matplotlib has but does not draw."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                if not low <= float(tick.get_loc()) <= high:
                    yield from (tick.label1, tick.label2)


def strings(figure: Figure) -> list[str]:
    return [text.get_text() for text in texts(figure)]


def misplaced(figure: Figure) -> list[str]:
    """Texts that overlap another one, or the edge of the figure."""
    return [*_overlapping(figure), *_outside(figure)]


def _overlapping(figure: Figure) -> Iterator[str]:
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    for (one, here), (other, there) in combinations(boxes, 2):
        apart = here.x1 <= there.x0 or there.x1 <= here.x0 or here.y1 <= there.y0 or there.y1 <= here.y0
        if not apart:
            yield f"{one!r} overlaps {other!r}"


def _outside(figure: Figure) -> Iterator[str]:
    for text in texts(figure):
        box = text.get_window_extent()
        if box.x0 < 0 or box.y0 < 0 or box.x1 > figure.bbox.width or box.y1 > figure.bbox.height:
            yield f"{text.get_text()!r} is cut off"
