"""Two ways to a broker for a transcript of transactions: in virtual time, and over a socket."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from typing import Any, Protocol

from kohort.model import Millis
from kohort.wire.api import APIS, read_response_header, request_header
from kohort.wire.codec import Message, decode, encode
from tests.broker.peer import connected
from tests.broker.virtual import PORT, VirtualBroker

ANSWERED_WITHIN_S = 60.0
"""The machine may be busy."""


class Wire(Protocol):
    """A broker: in virtual time, or behind a socket."""

    def ask(self, request: Message, version: int) -> Any:
        """Return the response."""
        ...

    def wait(self, duration: Millis) -> None: ...


class VirtualWire:
    """A whole broker of ours in virtual time."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._world = VirtualBroker(settings)

    def ask(self, request: Message, version: int) -> Any:
        """Send a request on a connection of its own, and return the response."""

        async def asked() -> Message:
            async with connected(f"127.0.0.1:{PORT}") as peer:
                return await peer.ask(request, version, APIS[request.KEY].response)

        return self._world.play(asked())

    def wait(self, duration: Millis) -> None:
        self._world.play(asyncio.sleep(duration / 1_000))

    def close(self) -> None:
        self._world.play(self._world.broker.stop())


class SocketWire:
    """A broker in another process, in real time."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=ANSWERED_WITHIN_S)
        self._file = self._socket.makefile("rb")

    def ask(self, request: Message, version: int) -> Any:
        """Send a request, and return the response."""
        frame = request_header(request.KEY, version, 1, "transcript") + encode(request, version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        head = self._file.read(4)
        assert len(head) == 4, f"the broker closed the connection of {request}"
        answer = self._file.read(struct.unpack(">i", head)[0])
        _, position = read_response_header(answer, request.KEY, version)
        return decode(APIS[request.KEY].response, version, answer[position:])

    def wait(self, duration: Millis) -> None:
        time.sleep(duration / 1_000)

    def close(self) -> None:
        self._file.close()
        self._socket.close()
