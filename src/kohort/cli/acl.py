"""`kohort acl`: add, list and remove ACLs, with the options of `kafka-acls.sh`."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers
from kohort.cli.output import columns, print_json, print_line
from kohort.cli.running import Refused, admin_client, run
from kohort.errors import ConfigError

if TYPE_CHECKING:
    from kohort.client import Acl, Admin
    from kohort.security import PatternType

T = TypeVar("T")

commands = typer.Typer(help="Add, list and remove ACLs.", rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="acl")


class Pattern(StrEnum):
    """A pattern type on the command line."""

    LITERAL = "literal"
    PREFIXED = "prefixed"
    MATCH = "match"
    ANY = "any"


Topic = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Topic; repeatable. * for all.", show_default=False)
]
Group = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Consumer group; repeatable. * for all.", show_default=False)
]
TransactionalId = Annotated[
    list[str] | None, typer.Option(metavar="ID", help="Transactional ID; repeatable. * for all.", show_default=False)
]
OfCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
PatternOfNew = Annotated[
    Pattern,
    typer.Option(
        "--resource-pattern-type",
        help="literal: the resource of that name; prefixed: all whose names begin with it.",
    ),
]
PatternOfFound = Annotated[
    Pattern,
    typer.Option(
        "--resource-pattern-type",
        help="literal and prefixed: ACLs with exactly that name and type; match: all ACLs that apply to the resource; "
        "any: of that name and any type.",
    ),
]
AllowPrincipal = Annotated[
    list[str] | None,
    typer.Option(metavar="TYPE:NAME", help="Principal to allow; repeatable. User:* for all users.", show_default=False),
]
DenyPrincipal = Annotated[
    list[str] | None,
    typer.Option(metavar="TYPE:NAME", help="Principal to deny; repeatable.", show_default=False),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(metavar="ADDRESS", help="Client address to allow; repeatable. Default: any.", show_default=False),
]
DenyHost = Annotated[
    list[str] | None,
    typer.Option(metavar="ADDRESS", help="Client address to deny; repeatable. Default: any.", show_default=False),
]
OperationName = Annotated[
    list[str] | None,
    typer.Option(
        "--operation", metavar="NAME", help="Operation, such as read; repeatable. Default: all.", show_default=False
    ),
]
Producer = Annotated[
    bool, typer.Option("--producer", help="What producers need: write, describe and create on --topic.")
]
Consumer = Annotated[
    bool, typer.Option("--consumer", help="What consumers need: read and describe on --topic, read on --group.")
]
Idempotent = Annotated[
    bool, typer.Option("--idempotent", help="With --producer: idempotent-write on the cluster, for old brokers.")
]


@commands.command("add", epilog="Example: kohort acl add --allow-principal User:alice --operation read --topic orders")
def add_acls(
    allow_principal: AllowPrincipal = None,
    deny_principal: DenyPrincipal = None,
    allow_host: AllowHost = None,
    deny_host: DenyHost = None,
    operation: OperationName = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OfCluster = False,
    resource_pattern_type: PatternOfNew = Pattern.LITERAL,
    producer: Producer = False,
    consumer: Consumer = False,
    idempotent: Idempotent = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Allow or deny operations, and print the ACLs.

    An ACL that denies wins over all that allow. An ACL that exists already remains as it is.
    """
    from kohort.cli.acl_rules import Resources, Rules, acls_to_add

    acls = acls_to_add(
        Resources(
            topics=topic or (),
            groups=group or (),
            transactional_ids=transactional_id or (),
            cluster=cluster,
            pattern_type=_pattern(resource_pattern_type),
        ),
        Rules(
            allowed=allow_principal or (),
            denied=deny_principal or (),
            allowed_hosts=allow_host or (),
            denied_hosts=deny_host or (),
            operations=operation or (),
            producer=producer,
            consumer=consumer,
            idempotent=idempotent,
        ),
    )
    _with_admin(bootstrap, lambda admin: admin.create_acls(acls))
    _show(acls, as_json=as_json)


@commands.command("list", epilog="Example: kohort acl list --topic orders --resource-pattern-type match")
def list_acls(
    principal: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE:NAME", help="Principal; repeatable. Default: any.", show_default=False),
    ] = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OfCluster = False,
    resource_pattern_type: PatternOfFound = Pattern.LITERAL,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """List the ACLs of resources, or all."""
    from kohort.cli.acl_rules import Resources, filters_to_list

    resources = Resources(
        topics=topic or (),
        groups=group or (),
        transactional_ids=transactional_id or (),
        cluster=cluster,
        pattern_type=_pattern(resource_pattern_type),
    )
    wanted = filters_to_list(resources, principal or ())

    async def ask(admin: "Admin") -> "set[Acl]":
        return {acl for acl_filter in wanted for acl in await admin.describe_acls(acl_filter)}

    found = sorted(_with_admin(bootstrap, ask))
    if found or as_json:
        _show(found, as_json=as_json)
    else:
        print_line("There are no such ACLs.")


@commands.command("remove", epilog="Example: kohort acl remove --topic orders --force")
def remove_acls(
    allow_principal: AllowPrincipal = None,
    deny_principal: DenyPrincipal = None,
    allow_host: AllowHost = None,
    deny_host: DenyHost = None,
    operation: OperationName = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OfCluster = False,
    resource_pattern_type: PatternOfFound = Pattern.LITERAL,
    producer: Producer = False,
    consumer: Consumer = False,
    idempotent: Idempotent = False,
    force: Annotated[bool, typer.Option("--force", help="Do not ask.")] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Remove ACLs of resources: those of the named principals, or all.

    The command shows the ACLs and asks, unless --force is given. Exit code 1 if there are none.
    """
    from kohort.cli.acl_rules import Resources, Rules, exactly, filters_to_remove

    wanted = filters_to_remove(
        Resources(
            topics=topic or (),
            groups=group or (),
            transactional_ids=transactional_id or (),
            cluster=cluster,
            pattern_type=_pattern(resource_pattern_type),
        ),
        Rules(
            allowed=allow_principal or (),
            denied=deny_principal or (),
            allowed_hosts=allow_host or (),
            denied_hosts=deny_host or (),
            operations=operation or (),
            producer=producer,
            consumer=consumer,
            idempotent=idempotent,
        ),
    )
    if not force:

        async def ask(admin: "Admin") -> "set[Acl]":
            return {acl for acl_filter in wanted for acl in await admin.describe_acls(acl_filter)}

        found = sorted(_with_admin(bootstrap, ask))
        _confirm(found)
        wanted = exactly(found)  # and none that was added since
    deleted = _with_admin(bootstrap, lambda admin: admin.delete_acls(wanted))
    gone = sorted({acl for found in deleted.values() for acl in found})
    if not gone:
        raise _none()
    _show(gone, as_json=as_json)


def _confirm(acls: "Sequence[Acl]") -> None:
    """Ask whether these may be removed."""
    if not acls:
        raise _none()
    if not sys.stdin.isatty():
        raise ConfigError("There is no terminal to ask whether to remove the ACLs: use --force.")
    _show(acls, as_json=False)
    if not typer.confirm("Remove these ACLs?", err=True):
        raise Refused("No ACL was removed.")


def _none() -> Refused:
    return Refused("There are no such ACLs; see kohort acl list.")


def _pattern(chosen: Pattern) -> "PatternType":
    from kohort.security import PatternType

    return PatternType[chosen.name]


def _with_admin(bootstrap: str | None, work: "Callable[[Admin], Awaitable[T]]") -> T:
    servers = bootstrap_servers(bootstrap)

    async def ask() -> T:
        async with admin_client(servers) as admin:
            return await work(admin)

    return run(ask(), servers)


def _show(acls: "Sequence[Acl]", *, as_json: bool) -> None:
    from kohort.cli.acl_rules import shown

    header = ("resource", "name", "pattern", "principal", "host", "operation", "permission")
    rows = [
        (
            shown(acl.pattern.resource_type),
            acl.pattern.name,
            shown(acl.pattern.pattern_type),
            acl.principal,
            acl.host,
            shown(acl.operation),
            shown(acl.permission),
        )
        for acl in acls
    ]
    if as_json:
        print_json([dict(zip(header, row, strict=True)) for row in rows])
    else:
        columns(header, rows)
