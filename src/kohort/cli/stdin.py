"""Standard input for a coroutine that can be cancelled while it waits for input."""

import asyncio
import os
import sys
import threading

from kohort.errors import KohortError

_CHUNK = 1 << 16
_AHEAD = 2


class StandardInput:
    """Reader of standard input in a daemon thread.

    The interpreter would wait for a thread of asyncio's own, and files and terminals cannot be
    polled in the same way.
    """

    def __init__(self) -> None:
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
            raise KohortError(f"Standard input cannot be read: {got.strerror}.")
        return got

    def _read(self) -> None:
        got: bytes | OSError = b"-"
        while got and not isinstance(got, OSError):
            self._wanted.acquire()
            try:
                got = os.read(sys.stdin.fileno(), _CHUNK)
            except OSError as problem:
                got = problem
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, got)
            except RuntimeError:
                return  # the loop is closed
