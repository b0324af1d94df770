"""What the pictures of the journal, of the laboratory and of the analysis share: colours, and time axes."""

from kohort.charts.clock import ClockTick, clock_ticks, zone
from kohort.charts.palette import COLOURS, DARK, FAINT, INK, Paint, paints

__all__ = ["COLOURS", "DARK", "FAINT", "INK", "ClockTick", "Paint", "clock_ticks", "paints", "zone"]
