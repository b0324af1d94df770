"""`kohort group reset-offsets`: move a group without members to other offsets."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.offset_targets import Place, Target, ToTime, new_offset, read_target
from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers
from kohort.cli.output import columns, print_json, print_note
from kohort.cli.partitions import Selection, Topics, existing, read_selection
from kohort.cli.running import Refused, admin_client, run
from kohort.errors import ConfigError, ErrorCode, KafkaError
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.client import Admin


def register(commands: typer.Typer) -> None:
    """Add the command."""
    example = "kohort group reset-offsets delays --topic flights:0,1 --to-datetime 2026-11-21T09:30:00 --execute"
    commands.command("reset-offsets", epilog=f"Example: {example}")(reset_offsets)


@dataclass(frozen=True, slots=True)
class _Move:
    """Change of one partition's committed offset."""

    partition: TopicPartition
    old: int | None
    new: int


def reset_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", show_default=False)],
    topic: Topics = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="All partitions with a committed offset.")] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Reset to the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Reset to the end.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Reset to the committed offset, or to the end if there is none.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, metavar="N", help="Reset to this offset.")] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Reset to the first record at or after this time (UTC), such as 2026-11-21T09:30:00."
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Reset to the first record since this long ago, such as P1DT2H30M."),
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="Move offsets by N records, back if negative.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute/--dry-run", help="Reset the offsets, or only show what would change.")
    ] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Set a group's committed offsets, in some topics or all; without --execute, only show the changes.

    The group must have no members (exit code 1). An offset outside a partition's range becomes its
    start or end.
    """
    target = read_target(
        {
            "--to-earliest": to_earliest,
            "--to-latest": to_latest,
            "--to-current": to_current,
            "--to-offset": to_offset,
            "--to-datetime": to_datetime,
            "--by-duration": by_duration,
            "--shift-by": shift_by,
        },
        now=round(time.time() * 1000),
    )
    if bool(topic) == all_topics:
        raise ConfigError("Specify offsets: either --topic TOPIC (or TOPIC:0,1), repeatable, or --all-topics.")
    selection, servers = None if all_topics else read_selection(topic or ()), bootstrap_servers(bootstrap)

    async def work() -> list[_Move]:
        async with admin_client(servers) as admin:
            moves = await _plan(admin, group, selection, target)
            if execute:
                await _commit(admin, group, moves)
            return moves

    _print(group, run(work(), servers), execute, as_json)


async def _plan(admin: "Admin", group: str, selection: Selection | None, target: Target) -> list[_Move]:
    described = (await admin.describe_groups([group]))[group]
    if described.members or described.state not in ("Empty", "Dead"):
        raise Refused(_occupied(group))
    if selection is None:
        committed = {tp: at for tp, at in (await admin.group_offsets(group)).items() if at is not None}
        partitions = sorted(committed)
        if not partitions:
            raise Refused(f"The group {group} has no committed offsets: name topics with --topic.")
    else:
        partitions = await existing(admin, selection)
    places = await _places(admin, group, partitions, target)
    moves = []
    for partition, place in places.items():
        new = new_offset(target, place)
        if new is None:
            raise Refused(f"The group {group} has no committed offset of {partition} to shift.")
        moves.append(_Move(partition, place.committed, new))
    return moves


async def _places(
    admin: "Admin", group: str, partitions: Sequence[TopicPartition], target: Target
) -> dict[TopicPartition, Place]:
    from kohort.client import OffsetSpec

    committed = await admin.group_offsets(group, partitions)
    starts = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    since = await admin.list_offsets(dict.fromkeys(partitions, target.at)) if isinstance(target, ToTime) else {}
    places = {}
    for partition in partitions:
        position, start, end, at = (found.get(partition) for found in (committed, starts, ends, since))
        places[partition] = Place(
            committed=position.offset if position else None,
            start=start.offset if start else 0,
            end=end.offset if end else 0,
            at_time=at.offset if at else None,
        )
    return places


async def _commit(admin: "Admin", group: str, moves: Sequence[_Move]) -> None:
    try:
        await admin.alter_group_offsets(group, {move.partition: move.new for move in moves})
    except KafkaError as problem:
        # A member joined after the check, or the group uses the consumer protocol, which makes it appear not to exist.
        if problem.code is ErrorCode.UNKNOWN_MEMBER_ID:
            raise Refused(_occupied(group)) from problem
        raise


def _occupied(group: str) -> str:
    return (
        f"The group {group} has members, which would continue from their own offsets: "
        f"stop them first, or remove them by kohort group remove-member {group} --all."
    )


def _print(group: str, moves: Sequence[_Move], executed: bool, as_json: bool) -> None:
    if as_json:
        offsets = [
            {"topic": move.partition.topic, "partition": move.partition.partition, "old": move.old, "new": move.new}
            for move in moves
        ]
        print_json({"group": group, "executed": executed, "offsets": offsets})
        return
    columns(("partition", "old", "new"), [(str(move.partition), move.old, move.new) for move in moves])
    changed = sum(move.old != move.new for move in moves)
    if executed:
        print_note(f"set the offsets of {group}: {changed} of {len(moves)} changed")
    else:
        print_note(f"Nothing is set yet: --execute would change {changed} of {len(moves)}.")
