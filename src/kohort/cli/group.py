"""`kohort group`: list and describe groups; commands that change groups have modules of their own."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kohort.cli import group_changes, group_config, group_explain, group_reset
from kohort.cli.member_names import member_names
from kohort.cli.missing_group import no_group
from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers
from kohort.cli.output import columns, print_json, print_line, print_note
from kohort.cli.partitions import listed, ranges
from kohort.cli.running import admin_client, run

if TYPE_CHECKING:
    from kohort.client import GroupDescription, GroupListing, GroupOffset

commands = typer.Typer(help="List, describe, reset and delete consumer groups.", rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for module in (group_explain, group_config, group_reset, group_changes):
        module.register(commands)
    app.add_typer(commands, name="group")


@commands.command("list", epilog="Example: kohort group list --state Stable --type consumer")
def list_groups(
    state: Annotated[
        list[str] | None, typer.Option(metavar="STATE", help="Only groups in this state; repeatable.")
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only groups of this type, classic or consumer; repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """List all groups and their states."""
    servers = bootstrap_servers(bootstrap)

    async def ask() -> "list[GroupListing]":
        async with admin_client(servers) as admin:
            return await admin.list_groups(state or (), type_ or ())

    groups = run(ask(), servers)
    if as_json:
        print_json(
            [
                {
                    "group": group.group_id,
                    "state": group.state,
                    "protocol_type": group.protocol_type,
                    "type": group.type,
                }
                for group in groups
            ]
        )
    elif groups:
        columns(
            ("group", "state", "protocol type", "type"),
            [(g.group_id, g.state, g.protocol_type, g.type) for g in groups],
        )
    else:
        print_line("There are no groups.")


@commands.command("describe", epilog="Example: kohort group describe delays --members")
def describe_group(
    group: Annotated[str, typer.Argument(metavar="GROUP", show_default=False)],
    members: Annotated[bool, typer.Option("--members", help="Only the members.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Only offsets and lag.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Only the state.")] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> int:
    """Describe a group's state, members, committed offsets and lag; all of them unless some are selected.

    Exit code 1 if there is no such group.
    """
    servers = bootstrap_servers(bootstrap)
    every = not (members or offsets or state)

    async def ask() -> "tuple[GroupDescription, list[GroupOffset]]":
        async with admin_client(servers) as admin:
            described = (await admin.describe_groups([group]))[group]
            return described, await admin.group_lag(group) if offsets or every else []

    described, lags = run(ask(), servers)
    if described.state == "Dead" and not lags:
        print_note(f"kohort: {run(no_group(servers, group), servers)}")
        return 1
    if as_json:
        print_json(_as_json(described, lags, state=state or every, members=members or every, offsets=offsets or every))
        return 0
    if state or every:
        _say_state(described, lags)
    if members or every:
        _say_members(described, ids=members)
    if offsets or every:
        _say_offsets(described, lags)
    return 0


def _say_state(described: "GroupDescription", lags: "list[GroupOffset]") -> None:
    parts = [described.state, f"{len(described.members)} member{'' if len(described.members) == 1 else 's'}"]
    if described.epoch is not None:
        parts.append(f"group epoch {described.epoch}")
        if described.target_epoch != described.epoch:
            parts.append(f"target epoch {described.target_epoch}")
    if described.assignor:
        parts.append(f"assignor {described.assignor}")
    if described.coordinator is not None:
        parts.append(f"coordinator {described.coordinator.host}:{described.coordinator.port}")
    if lags:
        parts.append(f"lag {_total(lags):,}")
    print_line(f"{described.group_id}: {', '.join(parts)}")


def _say_members(described: "GroupDescription", ids: bool) -> None:
    """Print the members, with `ids` or if nothing else tells two apart also their long member IDs."""
    members = sorted(described.members, key=lambda member: (member.client_id, member.member_id))
    header: tuple[str, ...] = ("member", "host", "instance", "partitions", "assignment")
    rows: list[tuple[object, ...]] = [
        (member.client_id, member.client_host, member.instance_id, len(member.assignment), ranges(member.assignment))
        for member in members
    ]
    if described.type == "consumer":
        header = (*header, "target", "epoch", "protocol")
        rows = [
            (*row, ranges(member.target or frozenset()), member.epoch, member.protocol)
            for row, member in zip(rows, members, strict=True)
        ]
    if ids or len({row[:3] for row in rows}) < len(rows):
        header = (*header, "member id")
        rows = [(*row, member.member_id) for row, member in zip(rows, members, strict=True)]
    if rows:
        columns(header, rows)


def _say_offsets(described: "GroupDescription", lags: "list[GroupOffset]") -> None:
    names = member_names(described.members)
    owner = {partition: names[member.member_id] for member in described.members for partition in member.assignment}
    rows = [(str(lag.partition), lag.committed, lag.end, lag.lag, owner.get(lag.partition)) for lag in lags]
    if rows:
        columns(("partition", "committed", "end", "lag", "member"), rows)


def _total(lags: "list[GroupOffset]") -> int:
    """Return the number of unprocessed records; a partition without a committed offset counts in full."""
    return sum(lag.end if lag.lag is None else lag.lag for lag in lags)


def _as_json(
    described: "GroupDescription", lags: "list[GroupOffset]", *, state: bool, members: bool, offsets: bool
) -> dict[str, Any]:
    value: dict[str, Any] = {"group": described.group_id}
    if state:
        at = described.coordinator
        value |= {
            "state": described.state,
            "type": described.type,
            "protocol_type": described.protocol_type,
            "assignor": described.assignor or None,
            "coordinator": {"id": at.node_id, "host": at.host, "port": at.port} if at is not None else None,
            "group_epoch": described.epoch,
            "target_epoch": described.target_epoch,
        }
    if members:
        value["members"] = [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "instance_id": member.instance_id,
                "topics": sorted(member.topics),
                "assignment": listed(member.assignment),
                "target": None if member.target is None else listed(member.target),
                "epoch": member.epoch,
                "expression": member.expression,
                "rack": member.rack,
                "protocol": member.protocol,
            }
            for member in described.members
        ]
    if offsets:
        value["lag"] = _total(lags)
        value["offsets"] = [
            {
                "topic": lag.partition.topic,
                "partition": lag.partition.partition,
                "committed": lag.committed,
                "end": lag.end,
                "lag": lag.lag,
                "metadata": lag.metadata,
            }
            for lag in lags
        ]
    return value
