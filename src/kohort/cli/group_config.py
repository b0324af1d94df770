"""`kohort group config`: show, set and unset the configs of a group. It need not exist yet."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers, read_pairs
from kohort.cli.output import columns, say, say_json
from kohort.cli.running import Refused, admin_client, run

if TYPE_CHECKING:
    from kohort.client.configs import ConfigValue

commands = typer.Typer(help="Show, set and unset a group's configs.", rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="config")


Group = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]


@commands.command("show", epilog="Example: kohort group config show delays --all")
def show_configs(
    group: Group,
    all_: Annotated[bool, typer.Option("--all", help="Also what the group leaves to its broker.")] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """What the group sets itself and, if asked, what it leaves to its broker."""
    servers = bootstrap_servers(bootstrap)
    found = run(_configs(servers, group), servers)
    shown = {name: found[name] for name in sorted(found) if all_ or _own(found[name])}
    if as_json:
        told = {name: {"value": one.value, "set_by": _setter(one)} for name, one in shown.items()}
        say_json({"group": group, "configs": told})
    elif shown:
        columns(("config", "value", "set by"), [(name, one.value or None, _setter(one)) for name, one in shown.items()])
    else:
        say(f"{group} sets nothing itself; --all shows what its broker gives it.")


@commands.command("set", epilog="Example: kohort group config set delays consumer.assignor=lag")
def set_configs(
    group: Group,
    pairs: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", show_default=False)],
    bootstrap: Bootstrap = None,
) -> None:
    """Set configs; what is not named stays. Either all are set or none. They count while the group runs."""
    configs, servers = read_pairs("kohort group config set", pairs), bootstrap_servers(bootstrap)
    run(_alter(servers, group, configs), servers)
    for name, value in configs.items():
        say(f"{group}: {name}={value}")


@commands.command("unset", epilog="Example: kohort group config unset delays consumer.assignor")
def unset_configs(
    group: Group,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", show_default=False)],
    bootstrap: Bootstrap = None,
) -> None:
    """Leave configs to the broker again. Exit code 1 if the group does not set one of them; then all stay."""
    servers = bootstrap_servers(bootstrap)

    async def work() -> None:
        found = await _configs(servers, group)
        # A broker takes the removal of what is not there, or of a misspelt name, for done.
        for name in names:
            if name not in found or not _own(found[name]):
                raise Refused(f"{group} does not set {name}; see kohort group config show {group}.")
        await _alter(servers, group, dict.fromkeys(names))

    run(work(), servers)
    for name in names:
        say(f"{group}: {name} is left to the broker")


async def _configs(servers: str, group: str) -> "dict[str, ConfigValue]":
    from kohort.client.configs import ConfigKind

    async with admin_client(servers) as admin:
        return await admin.describe_configs(ConfigKind.GROUP, group)


async def _alter(servers: str, group: str, changes: Mapping[str, str | None]) -> None:
    from kohort.client.configs import ConfigKind

    async with admin_client(servers) as admin:
        await admin.alter_configs(ConfigKind.GROUP, group, changes)


def _own(config: "ConfigValue") -> bool:
    return config.source.name == "GROUP"


def _setter(config: "ConfigValue") -> str:
    return {"GROUP": "group", "DEFAULT": "default"}.get(config.source.name, "broker")
