"""`kohort group explain`: why each member has its partitions, and for which members it waits."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kohort.cli.missing_group import no_group
from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers
from kohort.cli.output import print_json, print_line, print_note
from kohort.cli.partitions import listed, ranges
from kohort.cli.running import admin_client, run
from kohort.model import Millis, TopicPartition

if TYPE_CHECKING:
    from kohort.client import GroupDescription, MemberDescription

Partitions = frozenset[TopicPartition]


def register(commands: typer.Typer) -> None:
    """Add the command."""
    commands.command("explain", epilog="Example: kohort group explain delays")(explain_group)


def explain_group(
    group: Annotated[str, typer.Argument(metavar="GROUP", show_default=False)],
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> int:
    """Explain each member's partitions: what it subscribes to, owns and should own, and for whom it waits.

    A Kohort broker also reports, per member, since when this holds and what the assignor weighed.
    Exit code 1 if there is no such group.
    """
    servers = bootstrap_servers(bootstrap)

    async def ask() -> "GroupDescription":
        async with admin_client(servers) as admin:
            return (await admin.describe_groups([group]))[group]

    described = run(ask(), servers)
    if described.state == "Dead":
        print_note(f"kohort: {run(no_group(servers, group), servers)}")
        return 1
    explained = explain(described)
    if as_json:
        print_json(_as_json(described, explained))
        return 0
    for line in explanation_lines(described, explained, int(time.time() * 1000)):
        print_line(line)
    return 0


@dataclass(frozen=True, slots=True)
class Explained:
    """Explanation of one member's partitions."""

    member: "MemberDescription"
    gives_up: Partitions
    """Partitions that it owns and should not."""
    waits_for: Mapping[str, Partitions]
    """Partitions that it should own and other members still have, by their member IDs."""
    comes: Partitions
    """Partitions that it should own and that have no owner; its next heartbeat assigns them."""


def explain(described: "GroupDescription") -> list[Explained]:
    """Explain every member, in order of client ID and member ID."""
    owners = {partition: member for member in described.members for partition in member.assignment}
    return [_explained(m, owners) for m in sorted(described.members, key=lambda m: (m.client_id, m.member_id))]


def _explained(member: "MemberDescription", owners: "Mapping[TopicPartition, MemberDescription]") -> Explained:
    target = member.assignment if member.target is None else member.target
    missing = target - member.assignment
    waits_for: dict[str, Partitions] = {}
    for partition in sorted(missing & owners.keys()):
        owner = owners[partition].member_id
        waits_for[owner] = waits_for.get(owner, frozenset()) | {partition}
    return Explained(member, member.assignment - target, waits_for, missing - owners.keys())


def explanation_lines(described: "GroupDescription", explained: "list[Explained]", now: Millis) -> list[str]:
    """Return the explanation as lines of text."""
    names = {explanation.member.member_id: _name(explanation.member, described) for explanation in explained}
    lines = [f"{described.group_id}: {_of_group(described, now)}"]
    for explanation in explained:
        member = explanation.member
        lines += ["", names[member.member_id], f"  asks for   {_asks_for(member)}"]
        lines.append(f"  owns       {ranges(member.assignment) or 'nothing'}")
        if member.target is not None and member.target != member.assignment:
            lines.append(f"  target     {ranges(member.target) or 'nothing'}")
        if explanation.gives_up:
            lines.append(f"  gives up   {ranges(explanation.gives_up)}: told with its last or next heartbeat")
        for other, partitions in explanation.waits_for.items():
            lines.append(f"  waits for  {ranges(partitions)} of {names[other]}")
        if explanation.comes:
            lines.append(f"  gets       {ranges(explanation.comes)} with its next heartbeat: it has no owner")
        if member.since_ms is not None:
            lines.append(f"  so since   {_ago(now - member.since_ms)}")
        if member.reason is not None:
            lines.append(f"  because    {member.reason}")
    return lines


def _of_group(described: "GroupDescription", now: Millis) -> str:
    parts = [described.state]
    if described.type == "consumer" and described.epoch is not None:
        parts.append(f"group epoch {described.epoch}")
        if described.target_epoch != described.epoch:
            parts.append(f"the target is still that of epoch {described.target_epoch}")
        if described.target_since_ms is not None:
            parts.append(f"target computed {_ago(now - described.target_since_ms)}")
    if described.assignor:
        parts.append(f"assignor {described.assignor}")
    if described.type == "classic" and described.state in ("PreparingRebalance", "CompletingRebalance"):
        waiting = "members to join again" if described.state == "PreparingRebalance" else "its leader's assignment"
        parts.append(f"waits for {waiting}")
    return ", ".join(parts)


def _asks_for(member: "MemberDescription") -> str:
    asked = ", ".join(sorted(member.topics))
    if member.expression is not None:
        asked = f"{asked}, {member.expression}" if asked else member.expression
    return asked or "nothing"


def _name(member: "MemberDescription", described: "GroupDescription") -> str:
    """Return the instance or client ID if it identifies the member, else the member ID, with host, rack and epoch."""
    alike = [other for other in described.members if other.client_id == member.client_id]
    name = member.instance_id or (member.client_id if len(alike) == 1 else member.member_id)
    extra = [member.client_host, *([f"rack {member.rack}"] if member.rack else [])]
    extra += [f"member epoch {member.epoch}"] if member.epoch is not None else []
    return f"{name} ({', '.join(part for part in extra if part)})"


def _ago(passed: Millis) -> str:
    seconds = max(0, passed) // 1000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def _as_json(described: "GroupDescription", explained: "list[Explained]") -> dict[str, Any]:
    return {
        "group": described.group_id,
        "state": described.state,
        "type": described.type,
        "assignor": described.assignor or None,
        "group_epoch": described.epoch,
        "target_epoch": described.target_epoch,
        "target_since_ms": described.target_since_ms,
        "members": [
            {
                "member_id": explanation.member.member_id,
                "client_id": explanation.member.client_id,
                "instance_id": explanation.member.instance_id,
                "topics": sorted(explanation.member.topics),
                "expression": explanation.member.expression,
                "owns": listed(explanation.member.assignment),
                "target": None if explanation.member.target is None else listed(explanation.member.target),
                "gives_up": listed(explanation.gives_up),
                "waits_for": {other: listed(partitions) for other, partitions in explanation.waits_for.items()},
                "comes": listed(explanation.comes),
                "since_ms": explanation.member.since_ms,
                "reason": explanation.member.reason,
            }
            for explanation in explained
        ],
    }
