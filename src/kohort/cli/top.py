"""`kohort top`: the groups of any cluster in the terminal, live."""

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.client_options import client_options
from kohort.cli.options import Bootstrap, bootstrap_servers
from kohort.cli.output import print_note
from kohort.cli.running import of_command, run
from kohort.cli.top_keys import View, press
from kohort.cli.top_rows import GroupRow, ordered, rows
from kohort.cli.watch import read_age
from kohort.model import Millis

if TYPE_CHECKING:
    from kohort.watch import Live

_TICK_S = 1.0
_BUSY_SHARE = 10
"""A tick takes at most a tenth of the time between two: on a large cluster, ticks are rarer."""
_WIDE = 160
"""Width in columns if the output is not a terminal."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("top", epilog="Example: kohort top --bootstrap kafka:9092 --filter billing")(top)


def top(
    wanted: Annotated[
        str, typer.Option("--filter", metavar="TEXT", help="Show only groups whose ID contains this.")
    ] = "",
    history: Annotated[
        str,
        typer.Option(
            metavar="AGE", help="Age of the history in which to look for rebalances, such as 30m, 6h or 2d; 0 for none."
        ),
    ] = "1h",
    bootstrap: Bootstrap = None,
) -> int:
    """Show the groups of any cluster live, those that hurt first: lag, rebalances, and what to do.

    Enter opens a group: findings, members, partitions, rebalances. ? lists all keys, q ends it.
    Without a terminal, it prints the list once.

    Works with Apache Kafka and with Kohort, and only reads: it joins no group and commits nothing.
    """
    history_ms = read_age("--history", history)
    servers = bootstrap_servers(bootstrap)
    run(_top(servers, history_ms, View(wanted=wanted)), servers)
    return 0


async def _top(servers: str, history_ms: Millis, view: View) -> None:
    from kohort.cli.top_terminal import is_usable
    from kohort.client import AdminOptions, ConsumerOptions
    from kohort.watch import Live
    from kohort.watch.source import Watching

    options = of_command(servers) | client_options(AdminOptions) | client_options(ConsumerOptions)
    live = Live()
    async with Watching(options, history_ms=history_ms, live=live) as watching:
        if is_usable():
            await _Top(live, servers, view).run()
        else:
            await watching.caught_up()
            _print_once(live, view)


class _Top:
    """The screen, and what the user chose to see."""

    def __init__(self, live: "Live", where: str, view: View) -> None:
        from kohort.cli.top_terminal import Terminal
        from kohort.watch.findings import LagTrails

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
        from kohort.cli.top_screen import page_height

        listed = ordered(self._rows, self._view.order, self._view.wanted)
        page = page_height(self._terminal.console.height)
        self._view = press(self._view, key, [row.group_id for row in listed], page)
        if self._view.over:
            self._left.set()
        else:
            self._show()

    def _show(self) -> None:
        from kohort.cli.top_screen import Screen, draw

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


def _print_once(live: "Live", view: View) -> None:
    from rich.console import Console

    from kohort.cli.top_screen import snapshot_table
    from kohort.watch.findings import LagTrails

    listed: Sequence[GroupRow] = ordered(rows(live, LagTrails(), _now()), view.order, view.wanted)
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    console.print(snapshot_table(listed, _now(), console.width) if listed else "no groups")
    for problem in live.problems:
        print_note(f"kohort: {problem}")


def _now() -> Millis:
    return time.time_ns() // 1_000_000
