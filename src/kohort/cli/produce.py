"""`kohort produce`: write lines of standard input or files as records."""

import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from kohort.cli.client_options import client_options
from kohort.cli.input_reader import InputReader
from kohort.cli.options import Bootstrap, bootstrap_servers
from kohort.cli.output import print_note
from kohort.cli.record_json import UnreadableLine
from kohort.cli.record_lines import LineFormat, LineSplitter, read_header, read_separator
from kohort.cli.running import CALL_TIMEOUT_MS, of_command, run
from kohort.cli.script_properties import read_parsed
from kohort.cli.times import read_time
from kohort.errors import ErrorCode, KafkaError, KohortError

if TYPE_CHECKING:
    from kohort.client import Delivery, Producer

_FLUSH_S = 0.5
"""Time to write the lines already read after Ctrl-C, in seconds."""
_REPORT_EVERY_S = 2.0
_OF_ONE_RECORD = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""Errors of a record that leave the records before it to be written."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("produce", epilog="Example: printf 'a:1\\nb:2\\n' | kohort produce orders --key-separator :")(produce)


def produce(
    topic_and_files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC [FILE]...", help="Topic, unless --topic is given, and files.", show_default=False
        ),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Topic to write to.", show_default=False)
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", "-l", help="Write each line of the files as a record, not each file.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", "-J", help="Read lines as consume --json or kcat -J print them.")
    ] = False,
    delimiter: Annotated[
        str | None,
        typer.Option(
            "--delimiter",
            "-D",
            metavar="TEXT",
            help="Text after each record. Default: end of line.",
            show_default=False,
        ),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator",
            "-K",
            metavar="TEXT",
            help="Separator between key and value. Default: no keys.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", "-k", metavar="TEXT", help="Key of records without their own.", show_default=False),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="Header of all records; repeatable."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition",
            "-p",
            min=-1,
            metavar="N",
            help="Partition of all records; -1 ignores the partitions in lines of JSON. Default: by key.",
            show_default=False,
        ),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Timestamp of records without their own: milliseconds since 1970, or 2026-11-21T09:30:00.",
            show_default=False,
        ),
    ] = None,
    empty_as_null: Annotated[
        bool, typer.Option("--empty-as-null", "-Z", help="Write empty keys and values as null.")
    ] = False,
    null_marker: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Write keys and values that are TEXT as null.", show_default=False),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "--reader-property",
            metavar="NAME=VALUE",
            help="Property of Kafka's console producer, such as parse.key, key.separator or parse.headers; repeatable.",
        ),
    ] = None,
    max_: Annotated[
        int | None, typer.Option("--max", "-c", min=1, metavar="N", help="Stop after N records.", show_default=False)
    ] = None,
    compression: Annotated[
        str,
        typer.Option(
            "--compression",
            "--compression-codec",
            "-z",
            metavar="CODEC",
            help="Compression: none, gzip, snappy, lz4 or zstd.",
        ),
    ] = "none",
    transactional_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Write all records in one transaction of this ID, or none.", show_default=False
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print how many records are written.")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    r"""Write each line of standard input as a record, until the end of the input.

    Each FILE is one record; with --lines or --json, each line of it is one. The file - is standard input.
    TEXT may contain \t, \n, \r, \0, \\ and \x1f. With --transactional-id, the transaction ends with the
    input, at the latest after transaction.timeout.ms (-X, default 60000): an error or Ctrl-C aborts it.
    """
    servers = bootstrap_servers(bootstrap)
    topic, files = _topic_and_files(topic, topic_and_files or [])
    split_at = None if delimiter is None else read_separator("--delimiter", delimiter)
    parsed = read_parsed(properties or ())
    key_separator = parsed.separator if key_separator is None else key_separator
    null_marker = parsed.null if null_marker is None else null_marker
    line_format = LineFormat(
        separator=None if key_separator is None else read_separator("--key-separator", key_separator),
        as_json=as_json,
        key=None if key is None else key.encode(errors="surrogateescape"),
        headers=tuple(map(read_header, header or ())),
        timestamp=None if timestamp is None else read_time("--timestamp", timestamp),
        partition=partition,
        empty_as_null=empty_as_null,
        null_marker=None if null_marker is None else null_marker.encode(errors="surrogateescape"),
        header_separators=parsed.headers,
    )
    source = _Source(files, split_at, whole_files=bool(files) and not (lines or as_json))

    async def work() -> _Writer:
        import asyncio

        from kohort.client import Producer, ProducerOptions

        options: dict[str, Any] = {"compression_type": compression, "max_block_ms": CALL_TIMEOUT_MS}
        given = client_options(ProducerOptions)
        # The ID of an application's options must not be used by accident: that would fence the application.
        if given.pop("transactional_id", None) is not None and transactional_id is None:
            given.pop("transaction_timeout_ms", None)
            print_note("transactional.id has no effect: give --transactional-id to write in one transaction")
        if transactional_id is not None:
            options["transactional_id"] = transactional_id
        producer = Producer(**(of_command(servers) | options | given))
        async with producer:
            await producer.ready(topic)
            writer = _Writer(producer, topic, line_format, max_, quiet=quiet)
            if transactional_id is not None:
                writer.all_or_none = True
                async with producer.transaction():
                    try:
                        await writer.write_everything(source)
                    except asyncio.CancelledError:
                        print_note("interrupted: the transaction is aborted, so no line is written")
                        raise
                return writer
            try:
                await writer.write_everything(source)
            except asyncio.CancelledError:
                await producer.close(timeout=_FLUSH_S)
                writer.count_written()
                writer.report()
                raise
            return writer

    run(work(), servers).report()


def _topic_and_files(topic: str | None, given: list[str]) -> tuple[str, list[str]]:
    if topic is not None:
        return topic, given
    if not given:
        raise typer.BadParameter("name a topic, as in kohort produce orders.")
    return given[0], given[1:]


@dataclass(frozen=True, slots=True)
class _Source:
    """Files to read, or standard input if there are none."""

    files: Sequence[str]
    delimiter: bytes | None
    whole_files: bool

    async def lines(self) -> AsyncIterator[list[bytes]]:
        """Yield the available lines, which a terminal has one by one. Raises KohortError for an unreadable file."""
        for file in self.files or ("-",):
            reader = InputReader(None if file == "-" else file)
            if self.whole_files:
                yield [await reader.everything()]
                continue
            splitter = LineSplitter(self.delimiter)
            while chunk := await reader.chunk():
                yield splitter.feed(chunk)
            yield splitter.finish()


class _Writer:
    """Lines of the input on their way to the topic."""

    def __init__(
        self, producer: "Producer", topic: str, line_format: LineFormat, most: int | None, *, quiet: bool
    ) -> None:
        self.written = 0
        self.all_or_none = False
        """Whether the records are written in one transaction."""
        self._producer = producer
        self._topic = topic
        self._format = line_format
        self._most = most
        self._quiet = quiet
        self._under_way: deque[tuple[int, Delivery]] = deque()
        """Numbers of records that were sent together, and the delivery of the last of each."""
        self._number = 0
        self._started = self._reported = time.monotonic()

    async def write_everything(self, source: _Source) -> None:
        """Send all lines and wait until they are written. Raises the first error of a rejected record."""
        async for lines in source.lines():
            wanted = lines if self._most is None else lines[: self._most - self._number]
            await self._send_all(wanted)
            self.count_written()
            if sys.stderr.isatty() and time.monotonic() - self._reported > _REPORT_EVERY_S:
                self.report()
            if self._number == self._most:
                break
        await self._producer.flush()
        self.count_written()

    async def _send_all(self, lines: list[bytes]) -> None:
        """Send lines, together if records have only values, or keys and values."""
        topic, partition = self._topic, None if self._format.partition == -1 else self._format.partition
        pairs = self._format.pairs(lines) if self._format.pairs_only and lines else None
        try:
            if self._format.values_only:
                sent = await self._producer.send_values(topic, lines, partition=partition)
            elif pairs is not None:
                sent = await self._producer.send_pairs(topic, *pairs, partition=partition)
            else:
                await self._send_each(lines)
                return
        except KafkaError as problem:
            if problem.code not in _OF_ONE_RECORD:
                raise
            await self._send_each(lines)  # to name the one that cannot be written
        else:
            self._under_way += sent
            self._number += len(lines)

    async def _send_each(self, lines: list[bytes]) -> None:
        for line in lines:
            await self._send(line)

    async def _send(self, line: bytes) -> None:
        self._number += 1
        try:
            value, key, headers, timestamp, partition = self._format.record(line)
            sent = await self._producer.send(
                self._topic, value, key=key, timestamp=timestamp, headers=headers, partition=partition
            )
        except UnreadableLine as problem:
            await self._fail(str(problem))
        except KafkaError as problem:
            if problem.code not in _OF_ONE_RECORD:
                raise
            await self._fail(f"cannot be written: {problem}")
        else:
            self._under_way.append((1, sent))

    async def _fail(self, what: str) -> NoReturn:
        if self.all_or_none:
            raise KohortError(f"Line {self._number} {what.rstrip('.')}; no line is written.")
        await self._producer.flush()
        raise KohortError(f"Line {self._number} {what.rstrip('.')}; the lines before it are written.")

    def count_written(self) -> None:
        """Count the records written so far. Raises the error of a rejected record."""
        while self._under_way and self._under_way[0][1].done():
            count, delivery = self._under_way.popleft()
            delivery.result()
            self.written += count

    def report(self) -> None:
        """Print how many records are written."""
        self._reported = time.monotonic()
        seconds = self._reported - self._started
        rate = f", {self.written / seconds:,.0f}/s" if seconds >= 1 else ""
        records = f"{self.written:,} record{'' if self.written == 1 else 's'}"
        if not self._quiet:
            print_note(f"wrote {records} to {self._topic} in {seconds:.1f} s{rate}")
