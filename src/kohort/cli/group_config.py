"""`kohort group config`: show, set and unset the configs of a group, which need not exist yet."""

from typing import Annotated

import typer

from kohort.cli import configs
from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers

commands = typer.Typer(help="Show, set and unset a group's configs.", rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="config")


Group = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]


@commands.command("show", epilog="Example: kohort group config show delays --all")
def show_configs(
    group: Group,
    all_: Annotated[bool, typer.Option("--all", help="Include configs that the group does not set.")] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show the configs that the group sets itself and, with --all, those inherited from its broker."""
    configs.show(bootstrap_servers(bootstrap), "group", group, inherited=all_, as_json=as_json)


@commands.command("set", epilog="Example: kohort group config set delays consumer.assignor=lag")
def set_configs(
    group: Group,
    pairs: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", show_default=False)],
    bootstrap: Bootstrap = None,
) -> None:
    """Set configs, all or none; the others keep their values. They take effect while the group runs."""
    configs.set_pairs(bootstrap_servers(bootstrap), "group", group, pairs)


@commands.command("unset", epilog="Example: kohort group config unset delays consumer.assignor")
def unset_configs(
    group: Group,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", show_default=False)],
    bootstrap: Bootstrap = None,
) -> None:
    """Remove configs, so that the broker's apply again.

    Exit code 1 if the group does not set one of them; then none is removed.
    """
    configs.unset(bootstrap_servers(bootstrap), "group", group, names)
