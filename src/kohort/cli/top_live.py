"""Screen of `kohort top` while it runs: it draws at each tick and after each key."""

import asyncio
import time

from kohort.cli.top_keys import View, press
from kohort.cli.top_rows import GroupRow, ordered, rows
from kohort.cli.top_screen import Screen, draw, page_height
from kohort.cli.top_terminal import Terminal
from kohort.model import Millis
from kohort.watch import Live
from kohort.watch.findings import LagTrails

_TICK_S = 1.0
_BUSY_SHARE = 10
"""A tick takes at most a tenth of the time between two: on a large cluster, ticks are rarer."""


class LiveScreen:
    """The screen, and what the user chose to see."""

    def __init__(self, live: Live, where: str, view: View) -> None:
        self._live = live
        self._where = where
        self._view = view
        self._terminal = Terminal(self._pressed, self._show)
        self._trails = LagTrails()
        self._rows: list[GroupRow] = []
        self._left = asyncio.Event()

    async def run(self) -> None:
        """Show the groups until the user leaves."""
        with self._terminal.open():
            while not self._left.is_set():
                began = time.monotonic()
                self._rows = rows(self._live, self._trails, _now())
                self._show()
                pause = max(_TICK_S, _BUSY_SHARE * (time.monotonic() - began))
                try:
                    await asyncio.wait_for(self._left.wait(), pause)
                except TimeoutError:
                    continue

    def _pressed(self, key: str) -> None:
        listed = ordered(self._rows, self._view.order, self._view.wanted)
        page = page_height(self._terminal.console.height)
        self._view = press(self._view, key, [row.group_id for row in listed], page)
        if self._view.over:
            self._left.set()
        else:
            self._show()

    def _show(self) -> None:
        screen = Screen(
            self._live,
            self._trails,
            ordered(self._rows, self._view.order, self._view.wanted),
            len(self._rows),
            sum(bool(row.hurts) for row in self._rows),
            self._where,
            _now(),
        )
        lines, self._view = draw(screen, self._view, self._terminal.console)
        self._terminal.show(lines)


def _now() -> Millis:
    return time.time_ns() // 1_000_000
