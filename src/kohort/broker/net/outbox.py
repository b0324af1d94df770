"""Ready answers of one connection, until the transport has them or, if they are in files, the socket."""

import asyncio
from collections.abc import Callable

from kohort.broker.net.file_sending import FileSending, has_file, in_memory, socket_of
from kohort.wire.codec import Buffer


class Outbox:
    """Ready answers, in the order in which they were added."""

    def __init__(self, loop: asyncio.AbstractEventLoop, unblocked: Callable[[OSError | None], None]) -> None:
        """`unblocked` is called when a socket that was full has taken everything, or has failed."""
        self.ready: list[Buffer] = []
        self.held = 0
        """Bytes of large answers that the transport does not have yet; `_leaving` of these are in `ready`."""
        self._leaving = 0
        self._loop = loop
        self._unblocked = unblocked
        self._files: FileSending | None = None
        """Created for the first answer with records in files."""

    @property
    def blocked(self) -> bool:
        """Whether records in files wait until the peer takes more."""
        return self._files is not None and self._files.waiting

    def add(self, answer: list[Buffer]) -> None:
        """Add an answer to the next `send`."""
        self.ready += answer
        if len(answer) > 1:
            self._leaving += sum(map(len, answer))

    def hold(self, size: int) -> None:
        """Count a large answer of `size` bytes, which is added when all answers before it are."""
        self.held += size

    def send(self, transport: asyncio.Transport | None) -> None:
        """Pass on all ready answers in one write; without a transport, drop them.

        Raise OSError if an answer was sent in part and cannot be completed.
        """
        ready, self.ready = self.ready, []
        self.held -= self._leaving
        self._leaving = 0
        if transport is None:
            return
        if self.blocked:
            assert self._files is not None
            self._files.send(ready)
        elif len(ready) == 1:  # not a file: the part with its size and offsets precedes it
            transport.write(ready[0])
        elif has_file(ready):
            self._send_files(transport, ready)
        elif ready:
            transport.writelines(ready)

    def _send_files(self, transport: asyncio.Transport, ready: list[Buffer]) -> None:
        shared = socket_of(transport)
        if shared is None:
            transport.writelines(in_memory(ready))
            return
        if self._files is None:
            self._files = FileSending(self._loop, shared, self._unblocked)
        self._files.send(ready)

    def close(self) -> None:
        """Drop everything, because the connection is closed."""
        self.ready.clear()
        if self._files is not None:
            self._files.close()
