"""Command line `kohort`, with one module per group of commands.

Expensive dependencies are imported inside the commands that need them.
"""

import sys
from collections.abc import Sequence
from typing import NoReturn

from kohort import interruption


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit.

    If `arguments` is None, take the arguments and handle the signals of this process.
    """
    try:
        if arguments is None:
            interruption.install()  # before the imports, which are slow
        from kohort.cli.app import run

        code = run(arguments)
    except KeyboardInterrupt:
        code = interruption.exit_code()
    if arguments is not None:
        sys.exit(code)
    interruption.at_once()
    interruption.end(code)


__all__ = ["main"]
