"""A link between clients and a broker that can be cut at a request, or hold answers back."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from kohort.broker import Broker, BrokerOptions


@dataclass
class Link:
    """What is to go wrong; a test changes it while it runs."""

    port: int = 0
    broker_port: int = 0
    cut_at: dict[int, list[bool]] = field(default_factory=dict)
    """By api key, for each of its next requests: cut instead of it (False), or after the broker got it (True)."""
    delay_s: float = 0.0
    """How long answers take that come from now on."""
    asked: Counter[int] = field(default_factory=Counter)
    """Requests that were seen, by api key."""
    cuts: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client, until either side ends it or it is cut."""
        there, back = await asyncio.open_connection("127.0.0.1", self.broker_port)
        answers = asyncio.create_task(self._pass_answers(there, writer))
        try:
            while await self._pass_request(reader, back):
                pass
            self.cuts += 1
            writer.transport.abort()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)
            for one in (back, writer):
                one.transport.abort()

    async def _pass_request(self, reader: asyncio.StreamReader, back: asyncio.StreamWriter) -> bool:
        frame = await _frame(reader)
        (key,) = struct.unpack_from(">h", frame, 4)
        self.asked[key] += 1
        planned = self.cut_at.get(key)
        if not planned:
            back.write(frame)
            return True
        if planned.pop(0):
            back.write(frame)
            await back.drain()
        return False

    async def _pass_answers(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            frame = await _frame(there)
            due_at = loop.time() + self.delay_s
            await asyncio.sleep(due_at - loop.time())
            writer.write(frame)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(struct.unpack(">i", size)[0])


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
        yield broker, link
