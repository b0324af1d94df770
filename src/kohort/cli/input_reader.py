"""Standard input and files for a coroutine that can be cancelled while it waits for input."""

import os
import sys
import threading

from kohort.errors import KohortError

_CHUNK = 1 << 18
_AHEAD = 2


class InputReader:
    """Reader of standard input, or of a file or pipe, in a daemon thread.

    The interpreter would wait for a thread of asyncio's own, and files and terminals cannot be
    polled in the same way.
    """

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
        self._wanted = threading.Semaphore(_AHEAD)
        threading.Thread(target=self._read, name="kohort-stdin", daemon=True).start()

    async def chunk(self) -> bytes:
        """Return the available input, or b"" at the end. Raises KohortError.

        A line typed by hand is returned at once.
        """
        got = await self._chunks.get()
        self._wanted.release()
        if isinstance(got, OSError):
            raise KohortError(f"{self._path or 'Standard input'} cannot be read: {got.strerror}.")
        return got

    async def everything(self) -> bytes:
        """Return the input up to its end. Raises KohortError."""
        found = bytearray()
        while chunk := await self.chunk():
            found += chunk
        return bytes(found)

    def _read(self) -> None:
        try:
            source = sys.stdin.fileno() if self._path is None else os.open(self._path, os.O_RDONLY)
        except OSError as problem:
            self._pass_on(problem)
            return
        try:
            self._read_from(source)
        finally:
            if self._path is not None:
                os.close(source)

    def _read_from(self, source: int) -> None:
        got: bytes | OSError = b"-"
        while got and not isinstance(got, OSError):
            self._wanted.acquire()
            try:
                got = os.read(source, _CHUNK)
            except OSError as problem:
                got = problem
            if not self._pass_on(got):
                return

    def _pass_on(self, got: bytes | OSError) -> bool:
        """Give a chunk to the loop. Return False if it is closed."""
        try:
            self._loop.call_soon_threadsafe(self._chunks.put_nowait, got)
        except RuntimeError:
            return False
        return True
