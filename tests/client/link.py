"""A link between clients and a broker that can be cut at a request, hold answers back, or change them."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kohort.broker import Broker, BrokerOptions
from kohort.wire.api import APIS, read_request_header, read_response_header, response_header
from kohort.wire.api.header import RequestHeader
from kohort.wire.codec import decode, encode
from kohort.wire.messages.produce import ProduceRequest


@dataclass
class Link:
    """Faults to inject; a test changes them while it runs."""

    port: int = 0
    broker_port: int = 0
    cut_at: dict[int, list[bool]] = field(default_factory=dict)
    """By api key, for each of its next requests: cut instead of it (False), or after the broker got it (True)."""
    change: dict[int, Callable[[Any, str | None], object]] = field(default_factory=dict)
    """By api key: what to do to each answer before the client of that id gets it."""
    watch: dict[int, Callable[[Any], object]] = field(default_factory=dict)
    """By api key: what is given each request before the broker gets it."""
    held: dict[int, asyncio.Event] = field(default_factory=dict)
    """By api key: the answers wait until this is set."""
    asked: Counter[int] = field(default_factory=Counter)
    """Requests that were seen, by api key."""
    problem: Exception | None = None
    """What a function of the test raised."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client, until either side ends it or it is cut."""
        there, back = await asyncio.open_connection("127.0.0.1", self.broker_port)
        unanswered: deque[RequestHeader] = deque()
        answers = asyncio.create_task(self._pass_answers(there, writer, unanswered))
        try:
            while await self._pass_request(reader, back, unanswered):
                pass
            writer.transport.abort()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)
            for stream in (back, writer):
                stream.transport.abort()

    async def _pass_request(
        self, reader: asyncio.StreamReader, back: asyncio.StreamWriter, unanswered: deque[RequestHeader]
    ) -> bool:
        frame = await _frame(reader)
        asked = read_request_header(frame, 4)
        key = asked.api_key
        self.asked[key] += 1
        if not _is_without_answer(asked, frame):
            unanswered.append(asked)
        if (watch := self.watch.get(key)) is not None:
            watch(decode(APIS[key].request, asked.api_version, frame[asked.body :]))
        planned = self.cut_at.get(key)
        if not planned:
            back.write(frame)
            return True
        if planned.pop(0):
            back.write(frame)
            await back.drain()
        return False

    async def _pass_answers(
        self, there: asyncio.StreamReader, writer: asyncio.StreamWriter, unanswered: deque[RequestHeader]
    ) -> None:
        while True:
            frame = await _frame(there)
            asked = unanswered.popleft()
            if (held := self.held.get(asked.api_key)) is not None:
                await held.wait()
            change = self.change.get(asked.api_key)
            try:
                writer.write(frame if change is None else _changed(frame, asked, change))
            except Exception as problem:  # of the test's own function
                self.problem = problem
                raise


def _is_without_answer(asked: RequestHeader, frame: bytes) -> bool:
    """Whether the broker sends no answer: to records that need no acknowledgement."""
    return asked.api_key == 0 and decode(ProduceRequest, asked.api_version, frame[asked.body :]).acks == 0


def _changed(frame: bytes, asked: RequestHeader, change: Callable[[Any, str | None], object]) -> bytes:
    key, version = asked.api_key, asked.api_version
    correlation_id, body = read_response_header(frame, key, version, 4)
    answer = decode(APIS[key].response, version, frame[body:])
    change(answer, asked.client_id)
    changed = response_header(key, version, correlation_id) + bytes(encode(answer, version))
    return struct.pack(">i", len(changed)) + changed


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(struct.unpack(">i", size)[0])


@asynccontextmanager
async def another_link(to: Link) -> AsyncIterator[Link]:
    """A second link to the same broker."""
    link = Link(broker_port=to.broker_port)
    async with await asyncio.start_server(link.serve, "127.0.0.1", 0) as server:
        link.port = server.sockets[0].getsockname()[1]
        yield link


@asynccontextmanager
async def linked_broker(**settings: str) -> AsyncIterator[tuple[Broker, Link]]:
    """A broker of ours that all clients reach over the link."""
    link = Link()
    server = await asyncio.start_server(link.serve, "127.0.0.1", 0)
    link.port = server.sockets[0].getsockname()[1]
    given = {name.replace("_", "."): value for name, value in settings.items()}
    given["advertised.listeners"] = f"127.0.0.1:{link.port}"
    async with server, Broker(BrokerOptions(port=0, settings=given)) as broker:
        link.broker_port = broker.sockets.port
        try:
            yield broker, link
        finally:
            if link.problem is not None:
                raise link.problem
