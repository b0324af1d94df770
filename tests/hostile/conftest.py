"""The command line's way to run a command in this process serves hostile users, too."""

from tests.cli.conftest import run

__all__ = ["run"]
