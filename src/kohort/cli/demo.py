"""`kohort demo`: the main job on real flights."""

from pathlib import Path
from typing import Annotated

import typer

from kohort.errors import KohortError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", epilog="Example: kohort demo --keep")(demo)


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep logs, Parquet and the broker's data.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the table and the picture go.")] = Path("demo-out"),
) -> int:
    """Broker, producer, a group that rebalances, Spark, a crash, and the proof: the main job on 336,776 flights.

    It takes about a minute, starts everything itself and ends it again. The last line is 'demo: ok' or says what was
    wrong, and the exit code follows. Without Java the Spark step is left out.
    """
    try:
        from kohort.demo.run import run
    except ImportError as missing:
        raise KohortError(f"The demo needs {missing.name}: pip install 'kohort[demo]'.") from missing
    return run(keep, out)
