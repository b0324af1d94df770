"""Colours that are easy to distinguish, also for colour-blind readers."""

from __future__ import annotations

from dataclasses import dataclass

COLOURS = (
    "#4444BB", "#FF8800", "#00CC99", "#770066", "#FFDD11", "#008899", "#BB77EE", "#996622", "#BBCCFF", "#444400",
)  # fmt: skip
"""Ten colours.

A search over the sRGB colours made them: it maximised the smallest distance of any two in OKLab, as
seen with normal sight, and as simulated for deuteranopia, protanopia and tritanopia (Machado et
al., 2009). The distances include those to `DARK` and to white. tests/charts has the minimum.
"""
LINE_COLOURS = tuple(colour for colour in COLOURS if colour not in ("#FFDD11", "#BBCCFF"))
"""Colours that a thin line on white may have: those of `COLOURS` that are dark enough."""
INK, FAINT, DARK = "#222222", "#888888", "#000000"
_HATCHES = ("", "///", "...", "---", "xxx", "|||")
_DEEP = frozenset(("#4444BB", "#770066", "#008899", "#996622", "#444400"))
"""Colours on which a hatch is white."""


@dataclass(frozen=True, slots=True)
class Paint:
    """Fill of a bar: a colour, and a hatch of matplotlib, which is empty for the first ten."""

    colour: str
    hatch: str = ""
    hatch_colour: str = INK


def paints(number: int) -> list[Paint]:
    """Return one fill for each of `number` names. They are distinct for up to sixty names, and repeat afterwards."""
    fills = []
    for index in range(number):
        colour = COLOURS[index % len(COLOURS)]
        hatch = _HATCHES[index // len(COLOURS) % len(_HATCHES)]
        fills.append(Paint(colour, hatch, "#FFFFFF" if colour in _DEEP else INK))
    return fills
