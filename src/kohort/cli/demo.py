"""`kohort demo`: demonstrate the system on real flights."""

from pathlib import Path
from typing import Annotated

import typer

from kohort.errors import KohortError, install_extra


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", epilog="Example: kohort demo --keep")(demo)


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep logs, Parquet files and the broker's data.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output directory for the table and the picture.")] = Path(
        "demo-out"
    ),
    secured: Annotated[
        bool, typer.Option("--secured", help="Connect over TLS, with a password and ACLs for each kind of client.")
    ] = False,
) -> int:
    """Run a broker, a producer, a rebalancing group, Spark and a crash on 336,776 flights, and verify the results.

    Takes one to two minutes; starts and stops all processes itself. The last line is 'demo: ok' or
    describes what was wrong, and the exit code matches it. Without Java, the Spark step is skipped.
    """
    try:
        from kohort.demo import run_demo
    except ImportError as missing:
        raise KohortError(f"The demo needs {missing.name}: {install_extra('demo')}.") from missing
    return run_demo(keep, out, secured=secured)
