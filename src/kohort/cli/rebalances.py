"""`kohort rebalances`: show the journal as a table, as JSON or as a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.client_options import client_options
from kohort.cli.missing_group import similar
from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers
from kohort.cli.output import json_text, print_exactly, print_note
from kohort.cli.running import admin_client, of_command, run
from kohort.errors import ConfigError
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.recorder import RebalanceRecord

_NO_JOURNAL = (
    "kohort: {servers} has no journal of rebalances: a Kohort broker writes one from a group's first rebalance on."
    " For Apache Kafka, use kohort analyse, which reads __consumer_offsets, or kohort group explain GROUP."
)
_WIDE = 160
"""Width in columns if the output is not a terminal; a file or a pager can take long lines."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rebalances", epilog="Example: kohort rebalances delays --partitions --last 3")(rebalances)


def rebalances(
    group: Annotated[
        str | None, typer.Argument(metavar="[GROUP]", help="Group to show. Default: all groups.", show_default=False)
    ] = None,
    partitions: Annotated[
        bool,
        typer.Option(
            "--partitions", help="Include each partition that moved or went dark, and what the assignor weighed."
        ),
    ] = False,
    last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Show only the last N.", show_default=False)
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the group's partitions over time (.png, .svg).", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Read this file, which kohort gateway --journal wrote, and no cluster.",
            show_default=False,
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> int:
    """Show why groups rebalanced, who caused it, how many partitions moved and how long they were dark.

    Members that could not join, and members that wait for a transaction, are listed, too.
    Exit code 1 if there is no journal or no such group.
    With --json, each line is one rebalance as stored in the topic __kohort_rebalances.
    """
    if picture is not None and group is None:
        raise ConfigError("--picture draws one group: name it, as in kohort rebalances GROUP --picture FILE.")
    if file is not None:
        records = _of_file(file, group)
        if group is not None and not records:
            print_note(f"kohort: {file} has no rebalance of a group {group}.")
            return 1
    else:
        servers = bootstrap_servers(bootstrap)
        everything = run(_read(servers), servers)
        if everything is None:
            print_note(_NO_JOURNAL.format(servers=servers))
            return 1
        records = [record for record in everything if group is None or record.group_id == group]
        if group is not None and not records and (missing := run(_missing(servers, group), servers)):
            print_note(f"kohort: {missing}")
            return 1
    records = records[-last:] if last is not None else records
    if picture is not None:
        from kohort.recorder.views import draw

        draw([record for record in records if record.is_rebalance], picture)
        print_note(f"drew {picture}")
    if as_json:
        for record in records:
            print_exactly(json_text(record.to_json().decode()) + b"\n")
    elif picture is None:
        _print(records, partitions)
    return 0


def _of_file(path: Path, group: str | None) -> "list[RebalanceRecord]":
    """Return the journal in a file, oldest first. Raises ConfigError."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as problem:
        raise ConfigError(f"--file {path} cannot be read: {problem.strerror}.") from None
    records = sorted(_decoded(lines, path), key=lambda record: record.ended_at)
    return [record for record in records if group is None or record.group_id == group]


async def _missing(servers: str, group: str) -> str | None:
    """Return a sentence if the group does not exist."""
    async with admin_client(servers) as admin:
        known = [listing.group_id for listing in await admin.list_groups()]
    return None if group in known else f"There is no group {group}; {similar(group, known)}"


async def _read(servers: str) -> "list[RebalanceRecord] | None":
    """Return the whole journal, oldest first; None if there is none."""
    from kohort.client import Consumer, ConsumerOptions
    from kohort.recorder import JOURNAL_TOPIC

    async with admin_client(servers) as admin:
        if JOURNAL_TOPIC not in await admin.list_topics(internal=True):
            return None
        found = (await admin.describe_topics([JOURNAL_TOPIC]))[JOURNAL_TOPIC]
    partitions = [TopicPartition(JOURNAL_TOPIC, number) for number in found.leaders]
    records = []
    options = of_command(servers) | client_options(ConsumerOptions) | {"auto_offset_reset": "earliest"}
    async with Consumer(**options) as consumer:
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(partition) < ends[partition] for partition in partitions]):
            records += [record.value for record in await consumer.poll() if record.value is not None]
    return sorted(_decoded(records), key=lambda record: record.ended_at)


def _decoded(values: Sequence[bytes], where: object = "__kohort_rebalances") -> "list[RebalanceRecord]":
    """Parse the records of rebalances.

    Other records, which clients can write on Apache Kafka, are counted and left out.
    """
    from kohort.recorder import MalformedRecord, RebalanceRecord

    understood = []
    for value in values:
        try:
            understood.append(RebalanceRecord.from_json(value))
        except MalformedRecord:
            continue
    if len(understood) < len(values):
        print_note(f"kohort: {len(values) - len(understood)} records of {where} cannot be read and are ignored.")
    return understood


def _print(records: "Sequence[RebalanceRecord]", partitions: bool) -> None:
    from rich.console import Console
    from rich.padding import Padding

    from kohort.recorder.views import headline, labels, partitions_table, rebalances_table, summary, weighed_table

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    if partitions:
        known = labels(records)
        for record in records:
            console.print(headline(record, known))
            if record.partitions:
                console.print(Padding(partitions_table(record, known), (0, 0, 0, 4), expand=False))
            if record.weighed:
                console.print(Padding(weighed_table(record, known), (0, 0, 0, 4), expand=False))
    elif records:
        console.print(rebalances_table(records))
    console.print(summary(records))
