"""How much of buffer_memory a producer's records may still take, and who waits for more of it."""

import asyncio
from collections import deque

from kohort.client.failures import ClosedError


class BufferMemory:
    """`free` is its owner's to count; after giving back, `wake` says so."""

    def __init__(self, size: int) -> None:
        self.free = size
        self._enough = size // 4
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    async def room(self) -> None:
        """Wait until a good part is free. Raises ClosedError."""
        while self.free < self._enough:
            if self._closed:
                raise ClosedError("the producer is closed.")
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def wake(self) -> None:
        """Let those go on who wait, if there is enough for them."""
        if self._waiters and (self._closed or self.free >= self._enough):
            waiters, self._waiters = self._waiters, deque()
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def close(self) -> None:
        """Nothing will become free any more."""
        self._closed = True
        self.wake()
