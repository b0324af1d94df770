"""`kohort topic config`: show, set and unset the configs of a topic."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers, read_pairs
from kohort.cli.output import columns, say, say_json
from kohort.cli.running import Refused, admin_client, run

if TYPE_CHECKING:
    from kohort.client.configs import ConfigValue

commands = typer.Typer(help="Show, set and unset a topic's configs.", rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="config")


Topic = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]


@commands.command("show", epilog="Example: kohort topic config show flights --all")
def show_configs(
    topic: Topic,
    all_: Annotated[bool, typer.Option("--all", help="Also what the topic leaves to its broker.")] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """What the topic sets itself and, if asked, what it leaves to its broker."""
    servers = bootstrap_servers(bootstrap)
    found = run(_configs(servers, topic), servers)
    shown = {name: found[name] for name in sorted(found) if all_ or _own(found[name])}
    if as_json:
        say_json(
            {"topic": topic, "configs": {name: {"value": c.value, "set_by": _setter(c)} for name, c in shown.items()}}
        )
    elif shown:
        columns(("config", "value", "set by"), [(name, one.value, _setter(one)) for name, one in shown.items()])
    else:
        say(f"{topic} sets nothing itself; --all shows what its broker gives it.")


@commands.command("set", epilog="Example: kohort topic config set flights retention.ms=3600000 segment.ms=60000")
def set_configs(
    topic: Topic,
    pairs: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", show_default=False)],
    bootstrap: Bootstrap = None,
) -> None:
    """Set configs; what is not named stays. Either all are set or none."""
    configs, servers = read_pairs("kohort topic config set", pairs), bootstrap_servers(bootstrap)
    run(_alter(servers, topic, configs), servers)
    for name, value in configs.items():
        say(f"{topic}: {name}={value}")


@commands.command("unset", epilog="Example: kohort topic config unset flights retention.ms")
def unset_configs(
    topic: Topic,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", show_default=False)],
    bootstrap: Bootstrap = None,
) -> None:
    """Leave configs to the broker again. Exit code 1 if the topic does not set one of them; then all stay."""
    servers = bootstrap_servers(bootstrap)

    async def work() -> None:
        found = await _configs(servers, topic)
        # A broker takes the removal of what is not there, or of a misspelt name, for done.
        for name in names:
            if name not in found or not _own(found[name]):
                raise Refused(f"{topic} does not set {name}; see kohort topic config show {topic}.")
        await _alter(servers, topic, dict.fromkeys(names))

    run(work(), servers)
    for name in names:
        say(f"{topic}: {name} is left to the broker")


async def _configs(servers: str, topic: str) -> "dict[str, ConfigValue]":
    from kohort.client.configs import ConfigKind

    async with admin_client(servers) as admin:
        await admin.describe_topics([topic])  # says at once, without retrying, that there is none
        return await admin.describe_configs(ConfigKind.TOPIC, topic)


async def _alter(servers: str, topic: str, changes: Mapping[str, str | None]) -> None:
    from kohort.client.configs import ConfigKind

    async with admin_client(servers) as admin:
        await admin.describe_topics([topic])
        await admin.alter_configs(ConfigKind.TOPIC, topic, changes)


def _own(config: "ConfigValue") -> bool:
    return config.source.name == "TOPIC"


def _setter(config: "ConfigValue") -> str:
    return _SETTERS.get(config.source.name, "broker")


_SETTERS = {"TOPIC": "topic", "DEFAULT": "default"}
