"""`kohort topic config`: show, set and unset the configs of a topic."""

from typing import Annotated

import typer

from kohort.cli import configs
from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers

commands = typer.Typer(help="Show, set and unset a topic's configs.", rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="config")


Topic = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]


@commands.command("show", epilog="Example: kohort topic config show flights --all")
def show_configs(
    topic: Topic,
    all_: Annotated[bool, typer.Option("--all", help="Include configs that the topic does not set.")] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show the configs that the topic sets itself and, with --all, those inherited from its broker."""
    configs.show(bootstrap_servers(bootstrap), "topic", topic, inherited=all_, as_json=as_json)


@commands.command("set", epilog="Example: kohort topic config set flights retention.ms=3600000 segment.ms=60000")
def set_configs(
    topic: Topic,
    pairs: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", show_default=False)],
    bootstrap: Bootstrap = None,
) -> None:
    """Set configs, all or none; the others keep their values."""
    configs.set_pairs(bootstrap_servers(bootstrap), "topic", topic, pairs)


@commands.command("unset", epilog="Example: kohort topic config unset flights retention.ms")
def unset_configs(
    topic: Topic,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", show_default=False)],
    bootstrap: Bootstrap = None,
) -> None:
    """Remove configs, so that the broker's apply again.

    Exit code 1 if the topic does not set one of them; then none is removed.
    """
    configs.unset(bootstrap_servers(bootstrap), "topic", topic, names)
