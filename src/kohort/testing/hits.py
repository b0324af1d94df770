"""A count that can be awaited: of the requests that a fault has affected, or of the writes of a bad disk."""

import asyncio
from collections.abc import Callable

from kohort.errors import KohortError


class Hits:
    """The number of hits of something. It belongs to the event loop of the brokers."""

    def __init__(self, told: Callable[[], str]) -> None:
        """`told` describes for errors what is hit."""
        self.count = 0
        self._told = told
        self._is_over = False
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def add(self) -> None:
        """Count one more, and wake those that wait for it."""
        self.count += 1
        for hits, reached in self._waiting:
            if self.count >= hits and not reached.done():
                reached.set_result(None)

    def end(self) -> None:
        """Fail those that wait: there will be no more hits."""
        self._is_over = True
        for hits, reached in self._waiting:
            if not reached.done():
                reached.set_exception(self._was_over(hits))

    async def wait(self, hits: int, timeout_s: float) -> int:
        """Wait until there are that many hits; return their number.

        Raise TimeoutError, which says how many there are, or KohortError if there will be no more.
        """
        if self.count >= hits:
            return self.count
        if self._is_over:
            raise self._was_over(hits)
        entry = hits, asyncio.get_running_loop().create_future()
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(timeout_s):
                await entry[1]
        except TimeoutError:
            raise TimeoutError(
                f"timed out after {timeout_s:g} s waiting for {hits} hit(s), have {self.count}: {self._told()}"
            ) from None
        finally:
            self._waiting.remove(entry)
        return self.count

    def _was_over(self, hits: int) -> KohortError:
        return KohortError(f"It was removed before it had {hits} hit(s), with {self.count}: {self._told()}")
