"""`kohort top`: the groups of any cluster in the terminal, live."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.client_options import client_options
from kohort.cli.options import Bootstrap, bootstrap_servers
from kohort.cli.output import print_note
from kohort.cli.running import of_command, run
from kohort.cli.top_keys import View
from kohort.cli.top_rows import GroupRow, ordered, rows
from kohort.cli.watch import read_age
from kohort.model import Millis

if TYPE_CHECKING:
    from kohort.watch import Live

_MOST_LOGGED = 10
"""Number of messages of the log that are printed at the end."""
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
    from kohort.watch import Live, SourceKind
    from kohort.watch.source import NO_LOG, Watching, clock

    options = of_command(servers) | client_options(AdminOptions) | client_options(ConsumerOptions)
    live = Live()
    async with Watching(options, history_ms=history_ms, live=live) as watching:
        if is_usable():
            from kohort.cli.top_live import LiveScreen

            with _logged_later():
                await LiveScreen(live, servers, view).run()
        else:
            await watching.caught_up()
            if history_ms and live.sources[SourceKind.LOG].state == "forbidden":
                live.problem(NO_LOG, clock())
            _print_once(live, view)


@contextmanager
def _logged_later() -> Iterator[None]:
    """Print what is logged when the block ends: meanwhile it would be written over the screen."""
    later = _Later()
    logging.getLogger("kohort").addHandler(later)
    try:
        yield
    finally:
        logging.getLogger("kohort").removeHandler(later)
        for text in later.texts:
            print_note(text)


class _Later(logging.Handler):
    """Keeps the last messages, equal ones once. The first handler also turns off Python's last resort, stderr."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: dict[str, None] = {}

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self.texts.pop(text, None)
        self.texts[text] = None
        if len(self.texts) > _MOST_LOGGED:
            del self.texts[next(iter(self.texts))]


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
