"""The command `kohort`: one module per group of commands. What is heavy is imported by the command that needs it."""

import sys
from collections.abc import Sequence
from typing import NoReturn

from kohort import interruption


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit. Without arguments it is this process's command: its signals and its arguments."""
    try:
        if arguments is None:
            interruption.install()  # before the imports, which take a while
        from kohort.cli.app import run

        code = run(arguments)
    except KeyboardInterrupt:
        code = interruption.exit_code()
    if arguments is None:
        interruption.at_once()
    sys.exit(code)


__all__ = ["main"]
