"""A network between a gateway and a broker that can be cut."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self


class Relay:
    """Passes bytes from its port to `target`, both ways, unless it is cut."""

    def __init__(self) -> None:
        self.target = ("127.0.0.1", 0)
        self.port = 0
        self._open = asyncio.Event()
        self._open.set()
        self._refuses = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._passing:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()

    def cut(self, *, silent: bool) -> None:
        """Pass nothing: bytes wait if `silent`; if not, all connections end, and new ones, too."""
        if silent:
            self._open.clear()
            return
        self._refuses = True
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        """Pass bytes again."""
        self._refuses = False
        self._open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        there, to = await asyncio.open_connection(*self.target)
        self._writers |= {writer, to}
        ways = [asyncio.create_task(self._pass(reader, to)), asyncio.create_task(self._pass(there, writer))]
        self._passing |= set(ways)
        await asyncio.wait(ways)
        self._passing -= set(ways)
        self._writers -= {writer, to}

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
