"""`kohort consume`: print records on standard output."""

import asyncio
import re
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kohort import interruption
from kohort.cli.client_options import client_options
from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers
from kohort.cli.output import flush, print_bytes, print_json
from kohort.cli.record_json import to_json
from kohort.cli.running import admin_client, of_command, run
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.client import Consumer, ConsumerRecord

_AT_ONCE = 500
_POLL_S = 60.0
_LEAVE_S = 0.5
"""Time the coordinator has to answer after Ctrl-C; an unavailable one must not delay the exit."""


class GroupProtocol(StrEnum):
    """One of Kafka's two group protocols."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("consume", epilog="Example: kohort consume orders --group billing --from-beginning --max 10")(consume)


def consume(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC...", help="Topics to read, unless --pattern is given.", show_default=False),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Regular expression for whole topic names, new topics included, internal ones excluded.",
            show_default=False,
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP", help="Join this group and commit offsets. Default: no group.", show_default=False
        ),
    ] = None,
    protocol: Annotated[GroupProtocol, typer.Option(help="Group protocol.")] = GroupProtocol.CLASSIC,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Read from the beginning if the group has no committed offset.")
    ] = False,
    max_: Annotated[
        int | None, typer.Option("--max", min=1, metavar="N", help="Stop after N records.", show_default=False)
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Print keys, separated from values by TEXT.", show_default=False),
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Print records, one per line, until --max or Ctrl-C. Without --group, topics created later are not read.

    With --json, a line is an object with topic, partition, offset, timestamp, key, value and
    headers, which kohort produce --json reads: bytes that are not UTF-8 are {"base64": "..."}.
    """
    servers = bootstrap_servers(bootstrap)
    wanted = _wanted(topics or [], pattern)
    separator = None if key_separator is None else key_separator.encode(errors="surrogateescape")

    async def work() -> None:
        consumer = _consumer(servers, group, protocol, from_beginning)
        try:
            if group is None:
                consumer.assign(await _partitions(servers, wanted))
            else:
                if not isinstance(wanted, re.Pattern):
                    await _partitions(servers, wanted)  # reports a missing topic instead of waiting for it
                consumer.subscribe(wanted)
            left = max_
            while left != 0:
                records = await consumer.poll(_AT_ONCE if left is None else min(left, _AT_ONCE), _POLL_S)
                for record in records:
                    _print(record, separator, as_json)
                if records:
                    flush()
                left = None if left is None else left - len(records)
        finally:
            # Closing commits the printed records and leaves the group.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_S if interruption.begun() else None):
                    await consumer.close()

    with suppress(interruption.Interrupted):  # Ctrl-C is the usual end
        run(work(), servers)


def _wanted(topics: list[str], pattern: str | None) -> "list[str] | re.Pattern[str]":
    if pattern is None:
        if not topics:
            raise typer.BadParameter("name at least one topic, or give --pattern.")
        return topics
    if topics:
        raise typer.BadParameter("give topics or --pattern, not both.")
    try:
        return re.compile(pattern)
    except re.error as problem:
        raise typer.BadParameter(f"--pattern {pattern!r} is not a regular expression: {problem}.") from None


async def _partitions(servers: str, wanted: "list[str] | re.Pattern[str]") -> list[TopicPartition]:
    """Return the partitions that exist now.

    Raises KafkaError (UNKNOWN_TOPIC_OR_PARTITION) for a topic that does not exist.
    """
    async with admin_client(servers) as admin:
        if not isinstance(wanted, re.Pattern):
            known = await admin.describe_topics(wanted)
        else:
            names = [name for name in await admin.list_topics() if wanted.fullmatch(name)]
            known = await admin.describe_topics(names) if names else {}
    return [TopicPartition(topic.name, number) for topic in known.values() for number in topic.leaders]


def _consumer(servers: str, group: str | None, protocol: GroupProtocol, from_beginning: bool) -> "Consumer":
    from kohort.client import Consumer, ConsumerOptions

    options: dict[str, Any] = {
        "group_protocol": protocol.value,
        "auto_offset_reset": "earliest" if from_beginning else "latest",
    }
    return Consumer(**(of_command(servers) | options | client_options(ConsumerOptions) | {"group_id": group}))


def _print(record: "ConsumerRecord", separator: bytes | None, as_json: bool) -> None:
    if as_json:
        print_json(to_json(record))
        return
    key = b"" if separator is None else (record.key or b"") + separator
    print_bytes(key + (record.value or b""))
