"""What the pictures of the journal, of the laboratory and of the analysis share: colours, legends, time axes."""

from kohort.charts.clock import ClockTick, clock_ticks, zone
from kohort.charts.page import SMALL, Page, draw_bars, draw_numbers, fill, legend_height, text_inches
from kohort.charts.palette import COLOURS, DARK, FAINT, INK, LINE_COLOURS, Paint, paints

__all__ = [
    "COLOURS", "DARK", "FAINT", "INK", "LINE_COLOURS", "SMALL", "ClockTick", "Page", "Paint", "clock_ticks",
    "draw_bars", "draw_numbers", "fill", "legend_height", "paints", "text_inches", "zone",
]  # fmt: skip
