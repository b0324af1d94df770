"""The command line's way to run a command serves these, too."""

from tests.cli.conftest import run

__all__ = ["run"]
