"""A peer that speaks to a broker in plain messages over a real socket."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from kohort.broker import Broker
from kohort.wire.api import APIS, read_response_header, request_header
from kohort.wire.codec import Message, decode, encode

M = TypeVar("M", bound=Message)

PATIENCE_S = 60.0
"""For one answer, on a machine that may be very busy."""


class Peer:
    """One connection. `ask` sends a request and waits for its answer; `send` and `answer` do it in two steps."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0
        self._asked: list[tuple[int, int, int]] = []

    def send(self, request: Message, version: int, client_id: str = "peer") -> None:
        self._correlation_id += 1
        self._asked.append((request.KEY, version, self._correlation_id))
        head = request_header(request.KEY, version, self._correlation_id, client_id)
        self.send_frame(head + encode(request, version))

    def send_frame(self, frame: bytes) -> None:
        self.writer.write(struct.pack(">i", len(frame)) + frame)

    async def receive_frame(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def answer(self, kind: type[M]) -> M:
        frame = await self.receive_frame()
        key, version, correlation_id = self._asked.pop(0)
        found, position = read_response_header(frame, key, version)
        assert found == correlation_id, "answers must come in the order of the requests"
        assert APIS[key].response is kind
        return decode(kind, version, frame[position:])

    async def ask(self, request: Message, version: int, kind: type[M]) -> M:
        self.send(request, version)
        return await self.answer(kind)

    async def closed(self) -> bool:
        """Whether the broker closes the connection without another byte."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self.reader.read(1) == b""
            except ConnectionResetError:
                return True


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Peer]:
    """A connection to the broker at `host:port`."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def talking_to(broker: Broker) -> AsyncIterator[Peer]:
    """A connection to a broker that the test started itself."""
    async with connected(f"127.0.0.1:{broker.port}") as peer:
        yield peer


async def until(reached: Callable[[], bool]) -> None:
    """Let the event loop turn until something inside the broker is so; there is nothing to await."""
    async with asyncio.timeout(PATIENCE_S):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0)
