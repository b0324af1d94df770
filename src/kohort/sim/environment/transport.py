"""One end of a simulated connection, as an asyncio transport."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol

from kohort.sim.environment.loop import VirtualLoop


class Carrier(Protocol):
    """Network as a transport uses it."""

    def carry(self, end: Transport, data: bytes) -> None:
        """Deliver bytes written at `end` to the other end."""
        ...

    def close(self, end: Transport, *, at_once: bool) -> None:
        """Close an end."""
        ...


class Transport(asyncio.Transport):
    """End of a connection whose writes are delivered to `other`.

    Buffers are unlimited: data that a slow reader has not read waits at its own end.
    """

    other: Transport

    def __init__(
        self,
        network: Carrier,
        loop: VirtualLoop,
        protocol: asyncio.BaseProtocol,
        number: int,
        peer: tuple[str, int],
    ) -> None:
        super().__init__()
        self.loop = loop
        self.protocol = protocol
        self.number = number
        self.arrives = 0.0
        """Arrival time of the last piece in transit to this end; later pieces arrive after it."""
        self._network = network
        self._peer = peer
        self._closing = False
        self._reading = True
        self._unread: list[bytes | Exception | None] = []

    def begin(self) -> None:
        """Notify the protocol of the new connection."""
        self.protocol.connection_made(self)

    def received(self, data: bytes) -> None:
        """Pass bytes to the protocol, now or when it resumes reading."""
        if self._closing:
            return
        if not self._reading:
            self._unread.append(data)
            return
        protocol = self.protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            view = memoryview(data)
            while view:
                room = memoryview(protocol.get_buffer(-1))
                size = min(len(room), len(view))
                room[:size] = view[:size]
                view = view[size:]
                protocol.buffer_updated(size)
        else:
            assert isinstance(protocol, asyncio.Protocol)
            protocol.data_received(data)

    def lost(self, problem: Exception | None) -> None:
        """Notify the protocol of the lost connection, after what was received before."""
        if not self._reading and self._unread and problem is None:
            self._unread.append(problem)
        elif not self._closing:
            self._closing = True
            self.loop.call_soon(self.protocol.connection_lost, problem)

    # asyncio.Transport

    def write(self, data: Any) -> None:
        if not self._closing:
            self._network.carry(self, bytes(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self._end(at_once=False)

    def abort(self) -> None:
        self._end(at_once=True)

    def _end(self, *, at_once: bool) -> None:
        if not self._closing:
            self._closing = True
            self._network.close(self, at_once=at_once)
            self.loop.call_soon(self.protocol.connection_lost, None)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._peer if name == "peername" else default

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        unread, self._unread = self._unread, []
        for what in unread:
            if isinstance(what, bytes):
                self.received(what)
            else:
                self.lost(what)
