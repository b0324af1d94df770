"""Sending of large answers from files to sockets with `os.sendfile`, past the transport.

uvloop's transport has no such call. It is bypassed only while it has nothing to send itself. Later answers wait here
until the socket has taken everything before them.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from kohort.log import FileSlice
from kohort.wire.batches import Buffer

Part = Buffer | FileSlice

_MOST_PARTS = 64
_TURN_BYTES = 4 << 20
"""Bytes that one connection sends before the event loop serves the others; takes about a millisecond."""
_SHORTER = "a file of the log is shorter than it was"


class FileSending:
    """One connection's direct way to its socket."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, shared: socket.socket, done: Callable[[OSError | None], None]
    ) -> None:
        """`shared` is the transport's socket. `done` is called when a `send` that had to wait finishes or fails."""
        self._loop = loop
        self._done = done
        # A second descriptor of it: the loop watches the first one for the transport.
        self._socket = socket.socket(fileno=os.dup(shared.fileno()))
        self._socket.setblocking(False)
        self._parts: deque[Part] = deque()
        self.waiting = False
        """Whether parts are left because the socket is full."""

    def send(self, parts: Iterable[Part]) -> None:
        """Send the parts after those that wait. Raise OSError if the peer is gone."""
        self._parts += (part for part in parts if len(part))
        if not self.waiting and not self._send():
            self.waiting = True
            self._loop.add_writer(self._socket, self._writable)

    def close(self) -> None:
        """Drop the parts that wait."""
        self._parts.clear()
        if self.waiting:
            self.waiting = False
            self._loop.remove_writer(self._socket)
        self._socket.close()

    def _writable(self) -> None:
        error = None
        try:
            if not self._send():
                return
        except OSError as raised:
            error = raised.with_traceback(None)  # which would keep this frame, and so the file, until a collection
        self.waiting = False
        self._loop.remove_writer(self._socket)
        self._done(error)

    def _send(self) -> bool:
        """Send what the socket takes; return whether all is sent. Stop early to let other connections proceed."""
        left = _TURN_BYTES
        try:
            while self._parts and left > 0:
                first = self._parts[0]
                left -= self._send_file(first) if isinstance(first, FileSlice) else self._send_bytes()
        except BlockingIOError:
            return False
        return not self._parts

    def _send_file(self, part: FileSlice) -> int:
        sent = os.sendfile(self._socket.fileno(), part.file.descriptor, part.position, part.size)
        if not sent:
            raise OSError(_SHORTER)
        if sent == part.size:
            self._parts.popleft()
        else:
            self._parts[0] = FileSlice(part.file, part.position + sent, part.size - sent)
        return sent

    def _send_bytes(self) -> int:
        """Send all parts up to the next file in one call, and in one packet with the beginning of that file."""
        parts: list[Buffer] = []
        for part in self._parts:
            if isinstance(part, FileSlice) or len(parts) == _MOST_PARTS:
                break
            parts.append(part)
        more = socket.MSG_MORE if len(parts) < len(self._parts) else 0
        sent = left = self._socket.sendmsg(parts, (), more)
        while left:
            first = parts.pop(0)
            self._parts.popleft()
            if left < len(first):
                self._parts.appendleft(memoryview(first)[left:])
                break
            left -= len(first)
        return sent


def has_file(parts: Sequence[Part]) -> bool:
    """Return whether any part is in a file."""
    return any(isinstance(part, FileSlice) for part in parts)


def in_memory(parts: Sequence[Part]) -> list[Buffer]:
    """Return the same parts, with those in files read. Raise OSError."""
    found = [part.read() if isinstance(part, FileSlice) else part for part in parts]
    if list(map(len, found)) != list(map(len, parts)):
        raise OSError(_SHORTER)
    return found


def socket_of(transport: asyncio.Transport) -> socket.socket | None:
    """Return the socket for a send that bypasses the transport; None if that is impossible, now or ever."""
    if transport.get_write_buffer_size() or transport.get_extra_info("sslcontext") is not None:
        return None
    found: socket.socket | None = transport.get_extra_info("socket")
    return found
