"""Answers of one connection that are ready, until its transport has them or, where they lie in files, its socket."""

import asyncio
from collections.abc import Callable

from kohort.broker.file_sending import FileSending, has_file, in_memory, socket_of
from kohort.wire.codec import Buffer


class Outbox:
    """In the order in which they are added."""

    def __init__(self, loop: asyncio.AbstractEventLoop, unblocked: Callable[[OSError | None], None]) -> None:
        """`unblocked` is called when a socket that was full has taken all, or is broken."""
        self.ready: list[Buffer] = []
        self.held = 0
        """Bytes of large answers that the transport does not have yet; of these, `_leaving` are in `ready`."""
        self._leaving = 0
        self._loop = loop
        self._unblocked = unblocked
        self._files: FileSending | None = None
        """Made for the first answer with records that lie in files."""

    @property
    def blocked(self) -> bool:
        """Whether records wait in files until the peer takes more."""
        return self._files is not None and self._files.waiting

    def add(self, answer: list[Buffer]) -> None:
        """It leaves with the next `send`."""
        self.ready += answer
        if len(answer) > 1:
            self._leaving += sum(map(len, answer))

    def hold(self, size: int) -> None:
        """A large answer of so many bytes is made, and will be added when it is its turn."""
        self.held += size

    def send(self, transport: asyncio.Transport | None) -> None:
        """Hand over all that is ready, in one write; without a transport, drop it.

        Raises OSError where an answer has left in part and can never be whole.
        """
        ready, self.ready = self.ready, []
        large = self._leaving > 0
        if large:
            self.held -= self._leaving
            self._leaving = 0
        if transport is None:
            return
        if self._files is not None and self._files.waiting:
            self._files.send(ready)
        elif large and has_file(ready):
            self._send_files(transport, ready)
        elif len(ready) == 1:
            transport.write(ready[0])
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
        """The connection is gone: drop all."""
        self.ready.clear()
        if self._files is not None:
            self._files.close()
            self._files = None
