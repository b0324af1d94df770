"""`kohort produce`: write lines of standard input as records."""

import asyncio
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kohort.cli.client_options import client_options
from kohort.cli.options import Bootstrap, bootstrap_servers
from kohort.cli.output import print_note
from kohort.cli.running import CALL_TIMEOUT_MS, of_command, run
from kohort.cli.stdin import StandardInput
from kohort.errors import KohortError

if TYPE_CHECKING:
    from kohort.client import Delivery, Producer

_FLUSH_S = 0.5
"""Time to write the lines already read after Ctrl-C, in seconds."""
_REPORT_EVERY_S = 2.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("produce", epilog="Example: printf 'a:1\\nb:2\\n' | kohort produce orders --key-separator :")(produce)


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    key_separator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Separator between key and value. Default: no keys.", show_default=False),
    ] = None,
    compression: Annotated[
        str, typer.Option(metavar="CODEC", help="Compression: none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    bootstrap: Bootstrap = None,
) -> None:
    """Write each line of standard input as a record, until the end of the input."""
    servers = bootstrap_servers(bootstrap)
    separator = None if key_separator is None else key_separator.encode(errors="surrogateescape")

    async def work() -> _Lines:
        from kohort.client import Producer, ProducerOptions

        options: dict[str, Any] = {"compression_type": compression, "max_block_ms": CALL_TIMEOUT_MS}
        producer = Producer(**(of_command(servers) | options | client_options(ProducerOptions)))
        async with producer:
            await producer.ready(topic)
            lines = _Lines(producer, topic, separator)
            try:
                await lines.send_everything()
            except asyncio.CancelledError:
                await producer.close(timeout=_FLUSH_S)
                lines.count_written()
                print_note(_progress_line(lines.written, topic, time.monotonic() - started))
                raise
            return lines

    started = time.monotonic()
    lines = run(work(), servers)
    print_note(_progress_line(lines.written, topic, time.monotonic() - started))


class _Lines:
    """Lines of standard input on their way to the topic."""

    def __init__(self, producer: "Producer", topic: str, separator: bytes | None) -> None:
        self.written = 0
        self._producer = producer
        self._topic = topic
        self._separator = separator
        self._under_way: deque[Delivery] = deque()
        self._number = 0

    async def send_everything(self) -> None:
        """Send all lines and wait until they are written. Raises the first error of a rejected record."""
        rest = b""
        started = reported = time.monotonic()
        source = StandardInput()
        while chunk := await source.chunk():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                await self._send(line)
            self.count_written()
            if sys.stderr.isatty() and time.monotonic() - reported > _REPORT_EVERY_S:
                reported = time.monotonic()
                print_note(_progress_line(self.written, self._topic, reported - started))
        if rest:
            await self._send(rest)
        await self._producer.flush()
        self.count_written()

    async def _send(self, line: bytes) -> None:
        self._number += 1
        key, value = None, line.removesuffix(b"\r")
        if self._separator is not None:
            key, found, value = value.partition(self._separator)
            if not found:
                await self._producer.flush()
                separator = self._separator.decode(errors="replace")
                raise KohortError(
                    f"Line {self._number} has no {separator!r} between key and value; the lines before it are written."
                )
        self._under_way.append(await self._producer.send(self._topic, value, key=key))

    def count_written(self) -> None:
        """Count the records written so far. Raises the error of a rejected record."""
        while self._under_way and self._under_way[0].done():
            self._under_way.popleft().result()
            self.written += 1


def _progress_line(records: int, topic: str, seconds: float) -> str:
    rate = f", {records / seconds:,.0f}/s" if seconds >= 1 else ""
    return f"wrote {records:,} record{'' if records == 1 else 's'} to {topic} in {seconds:.1f} s{rate}"
