"""Implementation of `kohort topic config` and `kohort group config`: show, set and unset configs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from kohort.cli.options import read_pairs
from kohort.cli.output import columns, print_json, print_line
from kohort.cli.running import Refused, admin_client, run

if TYPE_CHECKING:
    from kohort.client import Admin, ConfigKind, ConfigValue

Kind = Literal["topic", "group"]


def show(servers: str, kind: Kind, name: str, *, inherited: bool, as_json: bool) -> None:
    """Print the configs that the topic or group sets itself, and with `inherited` also its broker's."""
    found = run(_configs(servers, kind, name), servers)
    shown = {config: found[config] for config in sorted(found) if inherited or _is_own(kind, found[config])}
    setters = {config: _setter(kind, value) for config, value in shown.items()}
    if as_json:
        described = {config: {"value": value.value, "set_by": setters[config]} for config, value in shown.items()}
        print_json({kind: name, "configs": described})
    elif shown:
        rows = [(config, value.value or None, setters[config]) for config, value in shown.items()]
        columns(("config", "value", "set by"), rows)
    else:
        print_line(f"{name} has no configs of its own; --all includes inherited ones.")


def set_pairs(servers: str, kind: Kind, name: str, pairs: Sequence[str]) -> None:
    """Set NAME=VALUE pairs, all or none."""
    configs = read_pairs(f"kohort {kind} config set", pairs)
    run(_alter(servers, kind, name, configs), servers)
    for config, value in configs.items():
        print_line(f"{name}: {config}={value}")


def unset(servers: str, kind: Kind, name: str, configs: Sequence[str]) -> None:
    """Remove configs, so that the broker's apply again. Raises Refused, removing none, if one is not set."""

    async def work() -> None:
        found = await _configs(servers, kind, name)
        # A broker accepts the removal of a config that is not set or whose name is misspelt.
        for config in configs:
            if config not in found or not _is_own(kind, found[config]):
                raise Refused(f"{name} does not set {config}; see kohort {kind} config show {name}.")
        await _alter(servers, kind, name, dict.fromkeys(configs))

    run(work(), servers)
    for config in configs:
        print_line(f"{name}: {config} has the broker's value again")


async def _configs(servers: str, kind: Kind, name: str) -> "dict[str, ConfigValue]":
    async with admin_client(servers) as admin:
        await _check(admin, kind, name)
        return await admin.describe_configs(_kind(kind), name)


async def _alter(servers: str, kind: Kind, name: str, changes: Mapping[str, str | None]) -> None:
    async with admin_client(servers) as admin:
        await _check(admin, kind, name)
        await admin.alter_configs(_kind(kind), name, changes)


async def _check(admin: "Admin", kind: Kind, name: str) -> None:
    if kind == "topic":
        await admin.describe_topics([name])  # fails at once, without retries, if there is no such topic


def _kind(kind: Kind) -> "ConfigKind":
    from kohort.client import ConfigKind

    return ConfigKind[kind.upper()]


def _is_own(kind: Kind, config: "ConfigValue") -> bool:
    return config.source.name == kind.upper()


def _setter(kind: Kind, config: "ConfigValue") -> str:
    return {kind.upper(): kind, "DEFAULT": "default"}.get(config.source.name, "broker")
