"""When the answers of connections are written."""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.broker.connection import Connection


class FlushQueue:
    """Connections with answers that are ready: each is written once per loop turn, when all that was read is handled.

    A sync that completes 400 commits of 100 connections costs 100 writes. In the order in which they became ready: a
    simulation of the same seed must write the same.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._connections: dict[Connection, None] = {}

    def add(self, connection: "Connection") -> None:
        """Flush it before the loop waits again."""
        if not self._connections:
            self.loop.call_soon(self.run)
        self._connections[connection] = None

    def run(self) -> None:
        """Flush them now."""
        connections, self._connections = self._connections, {}
        for connection in connections:
            connection.flush()
