"""`kohort client-metrics`: subscriptions to the metrics that clients push (KIP-714)."""

from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers
from kohort.cli.output import columns, print_json, print_line
from kohort.cli.running import Refused, admin_client, run
from kohort.errors import ConfigError

if TYPE_CHECKING:
    from kohort.client import Admin

commands = typer.Typer(help="List, show, set and delete subscriptions to clients' metrics.", rich_markup_mode=None)

_NAMES = ("metrics", "interval.ms", "match")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="client-metrics")


Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


@commands.command("list", epilog="Example: kohort client-metrics list")
def list_subscriptions(bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """List the subscriptions."""
    servers = bootstrap_servers(bootstrap)

    async def work() -> dict[str, dict[str, str]]:
        async with admin_client(servers) as admin:
            return {name: await _of(admin, name) for name in await _existing(admin)}

    found = run(work(), servers)
    if as_json:
        print_json([{"name": name, **configs} for name, configs in found.items()])
    elif found:
        rows = [(name, *(configs.get(config) or None for config in _NAMES)) for name, configs in found.items()]
        columns(("name", *_NAMES), rows)
    else:
        print_line("There are no subscriptions, so clients push no metrics; see kohort client-metrics set.")


@commands.command("show", epilog="Example: kohort client-metrics show groups")
def show_subscription(name: Name, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """Show a subscription. Exit code 1 if there is none of this name."""
    servers = bootstrap_servers(bootstrap)

    async def work() -> dict[str, str]:
        async with admin_client(servers) as admin:
            await _check(admin, name)
            return await _of(admin, name)

    configs = run(work(), servers)
    if as_json:
        print_json({"name": name, **configs})
    else:
        columns(("config", "value"), [(config, configs.get(config) or None) for config in _NAMES])


@commands.command(
    "set", epilog="Example: kohort client-metrics set groups --metrics org.apache.kafka.consumer. --interval 30000"
)
def set_subscription(
    name: Name,
    metrics: Annotated[
        str | None, typer.Option(metavar="PREFIXES", help="Prefixes of names, separated by commas; * for all metrics.")
    ] = None,
    interval: Annotated[
        int | None, typer.Option(metavar="MS", help="Interval between two pushes in milliseconds, 100 to 3600000.")
    ] = None,
    match: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=REGEX", help="Clients that push, such as client_id=app.*; all must match."),
    ] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Create or change a subscription. What is not given keeps its value."""
    servers = bootstrap_servers(bootstrap)
    given = {
        "metrics": metrics,
        "interval.ms": None if interval is None else str(interval),
        "match": None if match is None else ",".join(match),
    }
    changes = {config: value for config, value in given.items() if value is not None}
    if not changes:
        raise ConfigError("kohort client-metrics set needs --metrics, --interval or --match.")

    async def work() -> None:
        from kohort.client import ConfigKind

        async with admin_client(servers) as admin:
            await admin.alter_configs(ConfigKind.CLIENT_METRICS, name, changes)

    run(work(), servers)
    for config, value in changes.items():
        print_line(f"{name}: {config}={value}")


@commands.command("delete", epilog="Example: kohort client-metrics delete groups")
def delete_subscription(name: Name, bootstrap: Bootstrap = None) -> None:
    """Delete a subscription. Exit code 1 if there is none of this name."""
    servers = bootstrap_servers(bootstrap)

    async def work() -> None:
        from kohort.client import ConfigKind

        async with admin_client(servers) as admin:
            await _check(admin, name)
            # As Kafka's tool does: a subscription without configs does not exist.
            await admin.alter_configs(ConfigKind.CLIENT_METRICS, name, dict.fromkeys(await _of(admin, name)))

    run(work(), servers)
    print_line(f"{name} is deleted.")


async def _existing(admin: "Admin") -> list[str]:
    from kohort.client import ConfigKind

    return sorted(name for _, name in await admin.list_config_resources([ConfigKind.CLIENT_METRICS]))


async def _check(admin: "Admin", name: str) -> None:
    if name not in await _existing(admin):
        raise Refused(f"There is no subscription {name}; see kohort client-metrics list.")


async def _of(admin: "Admin", name: str) -> dict[str, str]:
    """Return the configs that the subscription sets itself."""
    from kohort.client import ConfigKind

    found = await admin.describe_configs(ConfigKind.CLIENT_METRICS, name)
    return {config: value.value or "" for config, value in found.items() if value.source.name == "CLIENT_METRICS"}
