"""The queue of connections whose answers must be written."""

import asyncio
from typing import Protocol


class Flushable(Protocol):
    """A connection with answers to write."""

    def flush(self) -> None: ...


class FlushQueue:
    """Connections with ready answers: each is written once per loop turn, after everything that was read is handled.

    A sync that completes 400 commits of 100 connections costs 100 writes. Connections are written in the order in which
    they became ready, so that a simulation with the same seed writes the same.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._connections: dict[Flushable, None] = {}

    def add(self, connection: Flushable) -> None:
        """Flush the connection before the loop waits again."""
        if not self._connections:
            self.loop.call_soon(self.run)
        self._connections[connection] = None

    def run(self) -> None:
        """Flush all queued connections now."""
        connections, self._connections = self._connections, {}
        for connection in connections:
            connection.flush()
