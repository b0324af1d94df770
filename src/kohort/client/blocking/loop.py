"""An event loop in a daemon thread, and what calls into it."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

import uvloop

from kohort.client.failures import ClosedError
from kohort.errors import KohortError

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run it there."""
        if threading.current_thread() is self._thread:
            work.close()
            raise KohortError("a blocking call from inside the event loop would wait for itself.")
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there and wait; an interrupt (Ctrl-C) cancels it."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the loop; what still runs in it goes no further."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()


class Face(ABC):
    """What the three have in common: a loop to call into, until it is closed."""

    def __init__(self, name: str) -> None:
        self._thread = LoopThread(name)
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End it, and the loop. Closing twice is fine."""

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if self._stopped:
            work.close()
            raise ClosedError("the client is closed.")
        return self._thread.call(work)

    def _stop(self) -> None:
        self._stopped = True
        self._thread.stop()


async def made(make: Callable[[], T]) -> T:
    """Run it in the loop: the asyncio clients belong to the loop that they were made in."""
    return make()
