"""One of the two connections of a `Link`: the client's, or that to the broker."""

import asyncio
from typing import Protocol, cast

SLOW = "slow reader"
_LINGER_S = 30.0
"""Time within which the peer of a closed connection must take what is left."""

End = tuple[str, int]
"""Host and port of one end of a connection."""
Ends = tuple[End, End]
"""Both ends of a connection, first the one that opened it."""


class Both(Protocol):
    """Both connections; see `Link`."""

    def made(self, side: "Side") -> None:
        """Continue when a connection is made."""

    def received(self, side: "Side", data: bytes) -> None:
        """Pass bytes to the other side."""

    def lost(self, side: "Side") -> None:
        """Close the other connection."""

    def other(self, side: "Side") -> "Side":
        """Return the other side."""
        ...


class Side(asyncio.Protocol):
    """One of the two connections. While its peer takes nothing, nothing is read from the other one."""

    transport: asyncio.Transport

    def __init__(self, link: Both) -> None:
        self._link = link
        self.is_open = False
        self._time = asyncio.get_running_loop().time
        self.busy_at = self._time()
        """Time at which bytes arrived last."""
        self.received = 0
        """Number of bytes that have arrived."""
        self._paused_for: set[str] = set()
        self._early: bytearray | None = bytearray()
        """Bytes to send when the connection is open: a loop may read once before it can be told to pause."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.is_open = cast("asyncio.Transport", transport), True
        if self._paused_for:
            self.transport.pause_reading()
        early, self._early = self._early, None
        if early:
            self.transport.write(early)
        self._link.made(self)

    def data_received(self, data: bytes) -> None:
        self.busy_at = self._time()
        self.received += len(data)
        self._link.received(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._link.lost(self)

    def pause_writing(self) -> None:
        self._link.other(self).pause(SLOW)

    def resume_writing(self) -> None:
        self._link.other(self).resume(SLOW)

    def ends(self, opener: str, accepter: str) -> Ends | None:
        """Return the end that opened the connection and the other one, by their names; None if one is unknown.

        Only both together identify a connection: connections to different addresses may begin at the same port.
        """
        first, second = self._end(opener), self._end(accepter)
        return None if first is None or second is None else (first, second)

    def _end(self, name: str) -> End | None:
        found = self.transport.get_extra_info(name) if hasattr(self, "transport") else None
        return (found[0].removeprefix("::ffff:"), found[1]) if found else None

    @property
    def is_paused(self) -> bool:
        """Whether nothing is read."""
        return bool(self._paused_for)

    def pause(self, reason: str) -> None:
        """Read nothing until `resume` is called for each reason."""
        if not self._paused_for and self.is_open:
            self.transport.pause_reading()
        self._paused_for.add(reason)

    def resume(self, reason: str) -> None:
        """Read again, unless there is another reason not to."""
        self._paused_for.discard(reason)
        if not self._paused_for and self.is_open:
            self.transport.resume_reading()

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes, when the connection is open, unless it is closed by now."""
        if self.is_open:
            self.transport.write(data)
        elif self._early is not None:
            self._early += data

    def close(self) -> None:
        """Close the connection after what was written."""
        if self.is_open:
            self.is_open = False
            self.transport.close()
            if self.transport.get_write_buffer_size():
                asyncio.get_running_loop().call_later(_LINGER_S, self.transport.abort)

    def abort(self) -> None:
        """Close the connection at once."""
        self.is_open = False
        if hasattr(self, "transport"):
            self.transport.abort()
