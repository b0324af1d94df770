"""`kohort group delete-offsets`, `remove-member` and `delete`: remove offsets, members and groups."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.options import Bootstrap, bootstrap_servers
from kohort.cli.output import print_line, print_note
from kohort.cli.partitions import Selection, Topics, read_selection
from kohort.cli.running import Refused, admin_client, run
from kohort.errors import ConfigError, ErrorCode, KafkaError
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.client import Admin


def register(commands: typer.Typer) -> None:
    """Add the commands."""
    offsets = "Example: kohort group delete-offsets delays --topic flights:0,1"
    commands.command("delete-offsets", epilog=offsets)(delete_offsets)
    member = "Example: kohort group remove-member delays --instance worker-3"
    commands.command("remove-member", epilog=member)(remove_member)
    commands.command("delete", epilog="Example: kohort group delete delays")(delete_groups)


Group = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]


def delete_offsets(group: Group, topic: Topics = None, bootstrap: Bootstrap = None) -> None:
    """Delete a group's committed offsets of topics to which none of its members is subscribed.

    Exit code 1 if a member is subscribed to one, or if nothing is committed there.
    """
    if not topic:
        raise ConfigError("Specify offsets: --topic TOPIC (or TOPIC:0,1), repeatable.")
    selection, servers = read_selection(topic), bootstrap_servers(bootstrap)

    async def work() -> list[TopicPartition]:
        async with admin_client(servers) as admin:
            partitions = await _committed(admin, group, selection)
            try:
                await admin.delete_group_offsets(group, partitions)
            except KafkaError as problem:
                raise _no(problem, group) from problem
            return partitions

    for partition in run(work(), servers):
        print_line(f"deleted {partition}")


def remove_member(
    group: Group,
    members: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MEMBER_ID]...", help="Member ids, as shown by group describe --members."),
    ] = None,
    instance: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Static member, by its group.instance.id; repeatable.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All present members.")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Remove members from a group; members that still run join again.

    Exit code 1 if one is not in the group; then none is removed.
    """
    if bool(members or instance) == all_:
        raise ConfigError("Specify members: either member ids, --instance ID, or --all.")
    servers = bootstrap_servers(bootstrap)

    async def work() -> list[str]:
        async with admin_client(servers) as admin:
            try:
                if all_:
                    await _existing(admin, group)
                    return [member.instance_id or member.member_id for member in await admin.remove_all_members(group)]
                await _remove(admin, group, members or (), instance or ())
            except KafkaError as problem:
                raise _no(problem, group) from problem
            return [*(members or ()), *(instance or ())]

    removed = run(work(), servers)
    for member in removed:
        print_line(f"removed {member}")
    if not removed:
        print_line(f"The group {group} has no members.")


def delete_groups(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", show_default=False)], bootstrap: Bootstrap = None
) -> int:
    """Delete groups and their committed offsets; the groups must have no members.

    Exit code 1 if one has members or does not exist; the others are deleted.
    """
    servers = bootstrap_servers(bootstrap)

    async def work() -> list[Refused]:
        refused = []
        async with admin_client(servers) as admin:
            for group in groups:
                try:
                    await admin.delete_groups([group])
                except KafkaError as problem:
                    no = _no(problem, group)
                    if not isinstance(no, Refused):
                        raise
                    refused.append(no)
                else:
                    print_line(f"deleted {group}")
        return refused

    refused = run(work(), servers)
    for no in refused:
        print_note(f"kohort: {no}")
    return 1 if refused else 0


async def _committed(admin: "Admin", group: str, selection: Selection) -> list[TopicPartition]:
    """Return the selected partitions that have committed offsets; a topic without numbers selects all of them.

    Raises Refused if one has none.
    """
    found = {partition for partition, at in (await admin.group_offsets(group)).items() if at is not None}
    wanted: list[TopicPartition] = []
    for topic, numbers in selection.items():
        asked = (
            {partition for partition in found if partition.topic == topic} if numbers is None else _all(topic, numbers)
        )
        if missing := [str(partition) for partition in sorted(asked - found)] if asked else [topic]:
            raise Refused(f"The group {group} has no committed offset of {missing[0]}.")
        wanted += sorted(asked)
    return wanted


def _all(topic: str, numbers: Collection[int]) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for number in numbers}


async def _existing(admin: "Admin", group: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the IDs of the members, and of the instances among them.

    Raises Refused if the group does not exist.
    """
    described = (await admin.describe_groups([group]))[group]
    if described.state == "Dead":
        raise Refused(_missing(group))
    instances = frozenset(member.instance_id for member in described.members if member.instance_id is not None)
    return frozenset(member.member_id for member in described.members), instances


async def _remove(admin: "Admin", group: str, members: Collection[str], instances: Collection[str]) -> None:
    there, static = await _existing(admin, group)
    for kind, asked, known in (("member", members, there), ("instance", instances, static)):
        if unknown := [name for name in asked if name not in known]:
            raise Refused(f"The group {group} has no {kind} {unknown[0]}; see kohort group describe {group} --members.")
    await admin.remove_members(group, members, instances=instances)


def _no(problem: KafkaError, group: str) -> KafkaError | Refused:
    """Return Refused, with advice, for an error caused by the group's state; else `problem` itself."""
    match problem.code:
        case ErrorCode.GROUP_ID_NOT_FOUND:
            return Refused(_missing(group))
        case ErrorCode.NON_EMPTY_GROUP:
            return Refused(
                f"The group {group} has members: stop them first, or remove them by "
                f"kohort group remove-member {group} --all."
            )
        case ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
            return Refused(f"A member of the group {group} is subscribed to that topic: stop it first.")
        case ErrorCode.UNKNOWN_MEMBER_ID:
            return Refused(f"A member left the group {group} meanwhile; see kohort group describe {group} --members.")
    return problem


def _missing(group: str) -> str:
    return f"There is no group {group}; see kohort group list."
