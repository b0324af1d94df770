"""The command `kohort`: one module per group of commands. What is heavy is imported by the command that needs it."""

from kohort.cli.app import main

__all__ = ["main"]
