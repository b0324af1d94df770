"""Free part of a producer's buffer_memory, and the tasks that wait for it."""

import asyncio
from collections import deque

from kohort.client.failures import ClosedError


class BufferMemory:
    """Free buffer memory. The owner updates `free` and calls `wake` after releasing memory."""

    def __init__(self, size: int) -> None:
        self.free = size
        self._enough = size // 4
        self._wanted = self._enough
        """Free memory that ends the wait for room."""
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Number of tasks that wait for room."""
        return len(self._waiters)

    def want(self, size: int) -> None:
        """Let `room` wait for at least `size` bytes, which must not be more than the buffer has.

        Otherwise a record of more than a quarter of the buffer would be tried again without a wait.
        """
        self._wanted = max(self._wanted, size)

    async def room(self) -> None:
        """Wait until a quarter of the buffer is free, or what `want` was called with. Raises ClosedError."""
        while self.free < self._wanted:
            if self._closed:
                raise ClosedError("the producer is closed.")
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def wake(self) -> None:
        """Resume all waiting tasks if enough memory is free."""
        if self._waiters and (self._closed or self.free >= self._wanted):
            self._wanted = self._enough
            waiters, self._waiters = self._waiters, deque()
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def close(self) -> None:
        """Wake all waiting tasks, which raise ClosedError if there is not enough memory."""
        self._closed = True
        self.wake()
