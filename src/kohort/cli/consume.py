"""`kohort consume`: print records on standard output."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kohort import interruption
from kohort.cli.client_options import client_options, group_option
from kohort.cli.options import Bootstrap, bootstrap_servers
from kohort.cli.output import json_line, print_note
from kohort.cli.read_range import (
    FromOffset,
    FromTime,
    LastRecords,
    ReadRange,
    Start,
    read_offsets,
)
from kohort.cli.reading import Reading
from kohort.cli.record_format import (
    SHOWN,
    Formatter,
    keys_format,
    shown_format,
    string_format,
    values_format,
)
from kohort.cli.record_json import to_json
from kohort.cli.record_lines import read_separator
from kohort.cli.running import admin_client, of_command, run
from kohort.cli.script_properties import read_printed
from kohort.cli.times import read_time
from kohort.errors import ConfigError
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.client import Consumer

_LEAVE_S = 0.5
"""Time the coordinator has to answer after Ctrl-C; an unavailable one must not delay the exit."""


class Isolation(StrEnum):
    """Which records of transactions are read."""

    UNCOMMITTED = "read_uncommitted"
    COMMITTED = "read_committed"


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
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC", help="Topic to read; repeatable.", show_default=False),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            "--include",
            metavar="REGEX",
            help="Regular expression for whole topic names, new topics included, internal ones excluded.",
            show_default=False,
        ),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", "-p", min=0, metavar="N", help="Only this partition; repeatable.", show_default=False
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-G",
            metavar="GROUP",
            help="Join this group and commit offsets. Default: no group.",
            show_default=False,
        ),
    ] = None,
    protocol: Annotated[GroupProtocol, typer.Option(help="Group protocol.")] = GroupProtocol.CLASSIC,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Read from the beginning if the group has no committed offset.")
    ] = False,
    offset: Annotated[
        list[str] | None,
        typer.Option(
            "--offset",
            "-o",
            metavar="WHERE",
            help="Where to start: beginning, end (default), 7 for an offset, -5 for the last 5 of each partition,"
            " s@MS for a time. Where to stop: e@MS.",
            show_default=False,
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Start at the last N records of each partition.", show_default=False),
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Start at this time: milliseconds since 1970, or 2026-11-21T09:30:00.",
            show_default=False,
        ),
    ] = None,
    until_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop at this time, or at the end.", show_default=False)
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", "-e", help="Stop at the end of the partitions.")
    ] = False,
    max_: Annotated[
        int | None,
        typer.Option(
            "--max", "--max-messages", "-c", min=1, metavar="N", help="Stop after N records.", show_default=False
        ),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="TEXT",
            help=r"Print each record like this, such as '%t [%p] at %o: %k: %s\n'. %T is the timestamp, %h are the"
            " headers, %K and %S the sizes of key and value (-1 for null), %R the size as 4 bytes.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...", help=f"Print these before each value: {', '.join(SHOWN)}, or all.", show_default=False
        ),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator",
            "-K",
            metavar="TEXT",
            help="Print keys, separated from values by TEXT.",
            show_default=False,
        ),
    ] = None,
    delimiter: Annotated[
        str,
        typer.Option(
            "--delimiter",
            "-D",
            metavar="TEXT",
            help="Text after each record. Default: end of line.",
            show_default=False,
        ),
    ] = r"\n",
    null: Annotated[bool, typer.Option("--null", "-Z", help="Print null keys and values as NULL.")] = False,
    null_marker: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Print null keys and values as TEXT. Default: null with --show, else empty.",
            show_default=False,
        ),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "--formatter-property",
            metavar="NAME=VALUE",
            help="Property of Kafka's console consumer, such as print.key or key.separator; repeatable.",
        ),
    ] = None,
    timeout_ms: Annotated[
        int | None,
        typer.Option(min=1, metavar="MS", help="Stop if no record arrives for this time.", show_default=False),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Do not print notes, such as how many records were read.")
    ] = False,
    bootstrap: Bootstrap = None,
    isolation_level: Annotated[
        Isolation | None,
        typer.Option(
            help="read_committed leaves out records of transactions that are open or aborted. Default: -X, else"
            " read_uncommitted.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", "-J", help="Print JSON.")] = False,
) -> None:
    """Print records, one per line, until Ctrl-C or an end that an option sets.

    Without --group, topics created later are not read. With --json, a line is an object with
    topic, partition, offset, timestamp, key, value and headers, which kohort produce --json reads:
    bytes that are not UTF-8 are {"base64": "..."}.
    """
    from kohort.client import ConsumerOptions

    servers = bootstrap_servers(bootstrap)
    wanted = _wanted([*(topics or []), *(topic or [])], pattern)
    given = client_options(ConsumerOptions)
    if isolation_level is not None:
        given = {**given, "isolation_level": isolation_level.value}
    group = group_option() if group is None else group
    if group is None and given.get("group_id"):
        print_note(f"group.id={given['group_id']} of --command-config has no effect: give --group to join the group")
    part = _range(offset or [], from_beginning, last, from_time, until_time, exit_at_end)
    if group is None and part.start is None and given.get("auto_offset_reset") == "earliest":
        part = replace(part, start="beginning")
    _check_group(group, part, partition)
    printed = read_printed(properties or ())
    if properties and (as_json or format_):
        raise ConfigError(f"--property and {'--json' if as_json else '--format'} contradict each other.")
    show = printed.shown if show is None else show
    key_separator = printed.separator if key_separator is None and show else key_separator
    delimiter = printed.delimiter or delimiter
    null_marker = printed.null if null_marker is None else null_marker
    separator = None if key_separator is None else read_separator("--key-separator", key_separator)
    end = read_separator("--delimiter", delimiter) if delimiter else b""
    marker = "NULL" if null else null_marker
    form = _formatter(as_json, format_, show, separator, end, marker)
    values_form = None
    if part.until is None and not (as_json or format_ or show or separator):
        values_form = values_format(end, b"" if marker is None else marker.encode(errors="surrogateescape"))
    is_committed = given.get("isolation_level") == "read_committed"
    timeout = None if timeout_ms is None else timeout_ms / 1000
    reading = Reading(form, values_form, max_, is_committed, quiet, timeout)

    async def work() -> None:
        import asyncio

        consumer = _consumer(servers, group, protocol, part, given)
        try:
            if group is None:
                partitions = _chosen(await _partitions(servers, wanted), partition)
                consumer.assign(partitions)
                if not part.words_only:
                    await reading.limit(consumer, part, partitions)
            else:
                known: list[TopicPartition] = []
                if part.has_end or not isinstance(wanted, re.Pattern):
                    known = await _partitions(servers, wanted)  # reports a missing topic instead of waiting for it
                if part.has_end:
                    reading.group_ends = await consumer.end_offsets(known)
                    await reading.note_open_transactions(consumer, reading.group_ends)
                consumer.subscribe(wanted)
            await reading.read(consumer)
        finally:
            # Closing commits the printed records and leaves the group.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_S if interruption.begun() else None):
                    await consumer.close()

    started = time.monotonic()
    try:
        with nullcontext() if quiet or group is None else _join_notice_on_stderr():
            run(work(), servers)
        if not (quiet or reading.count) and part.start is None:
            since = "the committed offsets of the group, or at the end" if group else "the end"
            print_note(f"read no record: reading starts at {since}; --from-beginning reads all")
    except interruption.Interrupted:  # Ctrl-C is the usual end
        if not quiet:
            print_note(
                f"read {reading.count:,} record{'' if reading.count == 1 else 's'}"
                f" in {time.monotonic() - started:.1f} s"
            )


@contextmanager
def _join_notice_on_stderr() -> Iterator[None]:
    """Print what the client logs while a new group waits for its members."""
    import logging

    from kohort.client.membership import join_log

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print_note(record.getMessage())

    handler, level = Handler(), join_log.level
    join_log.addHandler(handler)
    join_log.setLevel(logging.INFO)
    try:
        yield
    finally:
        join_log.setLevel(level)
        join_log.removeHandler(handler)


def _range(
    offsets: list[str],
    from_beginning: bool,
    last: int | None,
    from_time: str | None,
    until_time: str | None,
    exit_at_end: bool,
) -> ReadRange:
    start, until = read_offsets(offsets)
    starts: list[tuple[str, Start]] = [("--offset", start)] if start is not None else []
    if from_beginning:
        starts.append(("--from-beginning", "beginning"))
    if last is not None:
        starts.append(("--last", LastRecords(last)))
    if from_time is not None:
        starts.append(("--from-time", FromTime(read_time("--from-time", from_time))))
    if len(starts) > 1:
        raise ConfigError(f"{' and '.join(name for name, _ in starts)} contradict each other.")
    if until_time is not None:
        if until is not None:
            raise ConfigError("--offset e@ and --until-time contradict each other.")
        until = read_time("--until-time", until_time)
    return ReadRange(starts[0][1] if starts else None, until, exit_at_end)


def _check_group(group: str | None, part: ReadRange, partitions: list[int] | None) -> None:
    if group is None:
        if part.start == "stored":
            raise ConfigError("--offset stored needs --group, whose committed offsets it means.")
        return
    if partitions:
        raise ConfigError("--partition and --group contradict each other: the group assigns partitions.")
    if isinstance(part.start, FromOffset | LastRecords | FromTime) or part.until is not None:
        raise ConfigError(
            "A group reads from its committed offsets: set them with kohort group reset-offsets, or leave out --group."
        )


def _formatter(
    as_json: bool, format_: str | None, show: str | None, separator: bytes | None, delimiter: bytes, null: str | None
) -> Formatter:
    given = [name for name, value in (("--json", as_json), ("--format", format_), ("--show", show)) if value]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} contradict each other.")
    marker = b"" if null is None else null.encode(errors="surrogateescape")
    if as_json:
        return lambda records: b"".join(json_line(to_json(record)) for record in records)
    if format_ is not None:
        return string_format(format_, marker)
    if show:
        shown = SHOWN if show == "all" else [name.strip() for name in show.split(",")]
        return shown_format(shown, separator or b"\t", delimiter, b"null" if null is None else marker)
    if separator is not None:
        return keys_format(separator, delimiter, marker)
    values_form = values_format(delimiter, marker)
    return lambda records: values_form([record.value for record in records])


def _chosen(known: list[TopicPartition], numbers: list[int] | None) -> list[TopicPartition]:
    if not numbers:
        return known
    chosen = [partition for partition in known if partition.partition in numbers]
    for topic in {partition.topic for partition in known}:
        there = {partition.partition for partition in known if partition.topic == topic}
        if missing := sorted(set(numbers) - there):
            has = f"the partitions 0 to {max(there)}" if max(there) else "only partition 0"
            raise ConfigError(f"{topic} has {has}, not {missing[0]}.")
    return chosen


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


def _consumer(
    servers: str, group: str | None, protocol: GroupProtocol, part: ReadRange, given: dict[str, Any]
) -> "Consumer":
    from kohort.client import Consumer

    options: dict[str, Any] = {
        "group_protocol": protocol.value,
        "auto_offset_reset": "earliest" if part.start == "beginning" else "latest",
    }
    return Consumer(**(of_command(servers) | options | given | {"group_id": group}))
