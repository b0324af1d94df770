"""`kohort quota`: show, set and unset quotas of users, client IDs and IP addresses."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers, read_pairs
from kohort.cli.output import columns, print_json, print_line
from kohort.cli.running import Refused, admin_client, run
from kohort.errors import ConfigError

if TYPE_CHECKING:
    from kohort.client import ClientQuotaEntity, QuotaName

commands = typer.Typer(help="Show, set and unset quotas of users, client IDs and IP addresses.", rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="quota")


User = Annotated[str | None, typer.Option(metavar="NAME", help="User.", show_default=False)]
Client = Annotated[str | None, typer.Option(metavar="ID", help="Client ID; with --user, of that user.")]
Ip = Annotated[str | None, typer.Option(metavar="ADDRESS", help="IP address.", show_default=False)]
AnyUser = Annotated[bool, typer.Option("--user-defaults", help="All users without a quota of their own.")]
AnyClient = Annotated[bool, typer.Option("--client-defaults", help="All client IDs without a quota of their own.")]
AnyIp = Annotated[bool, typer.Option("--ip-defaults", help="All addresses without a quota of their own.")]


@commands.command("show", epilog="Example: kohort quota show --user alice")
def show_quotas(
    user: User = None,
    client: Client = None,
    ip: Ip = None,
    user_defaults: AnyUser = False,
    client_defaults: AnyClient = False,
    ip_defaults: AnyIp = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show the quotas of a user, a client ID or an address, or all."""
    entity = _entity(user, client, ip, user_defaults, client_defaults, ip_defaults)
    found = run(_described(bootstrap_servers(bootstrap), entity, strict=False), bootstrap_servers(bootstrap))
    if as_json:
        print_json([{"entity": _parts(owner), "quotas": quotas} for owner, quotas in found.items()])
    elif found:
        rows = [
            (*_cells(owner), quota, f"{value:.15g}")
            for owner, quotas in found.items()
            for quota, value in quotas.items()
        ]
        columns(("user", "client id", "ip", "quota", "value"), rows)
    else:
        of_entity = f" of {entity}" if str(entity) else ""
        print_line(f"There are no quotas{of_entity}; set one with kohort quota set.")


@commands.command("set", epilog="Example: kohort quota set --user alice producer_byte_rate=1048576")
def set_quotas(
    pairs: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", show_default=False)],
    user: User = None,
    client: Client = None,
    ip: Ip = None,
    user_defaults: AnyUser = False,
    client_defaults: AnyClient = False,
    ip_defaults: AnyIp = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Set quotas, all or none; the others keep their values.

    producer_byte_rate and consumer_byte_rate are in bytes per second and broker,
    request_percentage in percent of a thread, controller_mutation_rate in partitions per second,
    connection_creation_rate of an address in connections per second.
    """
    entity = _one_entity(user, client, ip, user_defaults, client_defaults, ip_defaults)
    quotas = {name: _number(name, value) for name, value in read_pairs("kohort quota set", pairs).items()}
    servers = bootstrap_servers(bootstrap)

    async def work() -> None:
        async with admin_client(servers) as admin:
            await admin.alter_client_quotas({entity: quotas})

    run(work(), servers)
    for name, value in quotas.items():
        print_line(f"{entity}: {name}={value:.15g}")


@commands.command("unset", epilog="Example: kohort quota unset --user alice producer_byte_rate")
def unset_quotas(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", show_default=False)],
    user: User = None,
    client: Client = None,
    ip: Ip = None,
    user_defaults: AnyUser = False,
    client_defaults: AnyClient = False,
    ip_defaults: AnyIp = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Remove quotas. Exit code 1 if one of them is not set; then none is removed."""
    entity = _one_entity(user, client, ip, user_defaults, client_defaults, ip_defaults)
    servers = bootstrap_servers(bootstrap)
    run(_unset(servers, entity, names), servers)
    for name in names:
        print_line(f"{entity}: {name} is removed")


async def _unset(servers: str, entity: "ClientQuotaEntity", names: Sequence[str]) -> None:
    found = (await _described(servers, entity, strict=True)).get(entity, {})
    for name in names:
        # A broker accepts the removal of a quota that is not set or whose name is misspelt.
        if name not in found:
            raise Refused(f"{entity} has no quota {name}; see kohort quota show.")
    async with admin_client(servers) as admin:
        await admin.alter_client_quotas({entity: dict.fromkeys(names)})


async def _described(
    servers: str, entity: "ClientQuotaEntity", *, strict: bool
) -> "dict[ClientQuotaEntity, dict[str, float]]":
    from kohort.client import ClientQuotaFilter

    async with admin_client(servers) as admin:
        return await admin.describe_client_quotas(
            ClientQuotaFilter(entity.user, entity.client_id, entity.ip, strict=strict)
        )


def _entity(
    user: str | None, client: str | None, ip: str | None, any_user: bool, any_client: bool, any_ip: bool
) -> "ClientQuotaEntity":
    """Return the entity that the options name, without any part if there are none. Raises ConfigError."""
    from kohort.client import ClientQuotaEntity

    entity = ClientQuotaEntity(
        _chosen("user", user, any_user), _chosen("client", client, any_client), _chosen("ip", ip, any_ip)
    )
    if entity.ip is not None and (entity.user is not None or entity.client_id is not None):
        raise ConfigError("An address has quotas of its own: do not combine --ip with --user or --client.")
    return entity


def _one_entity(
    user: str | None, client: str | None, ip: str | None, any_user: bool, any_client: bool, any_ip: bool
) -> "ClientQuotaEntity":
    entity = _entity(user, client, ip, any_user, any_client, any_ip)
    if not str(entity):
        raise ConfigError("Name the owner of the quota: --user, --client, --ip, or one of their defaults.")
    return entity


def _chosen(option: str, name: str | None, is_default: bool) -> "str | QuotaName | None":
    from kohort.client import QuotaName

    if is_default and name is not None:
        raise ConfigError(f"--{option} and --{option}-defaults contradict each other.")
    if name == "":
        raise ConfigError(f"The name of --{option} cannot be empty.")
    return QuotaName.DEFAULT if is_default else name


def _parts(entity: "ClientQuotaEntity") -> dict[str, str | None]:
    """Return the entity's parts as the protocol names them, with None for a default."""
    parts = {"user": entity.user, "client-id": entity.client_id, "ip": entity.ip}
    return {kind: name if isinstance(name, str) else None for kind, name in parts.items() if name is not None}


def _cells(entity: "ClientQuotaEntity") -> list[str | None]:
    names = (entity.user, entity.client_id, entity.ip)
    return [name if name is None or isinstance(name, str) else name.value for name in names]


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise ConfigError(f"{name} takes a number, not {text!r}.")
    return value
