"""An event loop in a daemon thread, and what calls into it."""

import asyncio
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

import uvloop

from kohort.client.failures import ClosedError, ConcurrentUseError
from kohort.client.loops import warn_unclosed
from kohort.errors import KohortError

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self._awaited: set[Future[Any]] = set()
        self.current: Future[Any] | None = None
        """What a thread waits for in `wait`: a signal handler of that thread may cancel it."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            # Nobody is to wait for what no longer runs.
            for future in list(self._awaited):
                future.cancel()
            self.loop.close()

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run it there."""
        if threading.current_thread() is self._thread:
            work.close()
            raise KohortError("a blocking call from inside the event loop would wait for itself.")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        self._awaited.add(future)
        future.add_done_callback(self._awaited.discard)
        return future

    def call(self, work: Coroutine[Any, Any, T], patience: float | None = None) -> T:
        """Run it there and wait; an interrupt (Ctrl-C) cancels it, and so does TimeoutError after `patience`."""
        return self.wait(self.submit(work), lambda future: future.result(patience))

    def wait(self, future: "Future[T]", until: Callable[["Future[T]"], T]) -> T:
        """Return what `until` does, which waits for that future; whatever ends the waiting cancels it."""
        before, self.current = self.current, future
        try:
            return until(future)
        except BaseException:
            future.cancel()
            raise
        finally:
            self.current = before

    def stop(self) -> None:
        """End the loop, and wait for that; what still runs in it is cancelled."""
        self.stop_soon()
        self._thread.join()

    def stop_soon(self, work: Coroutine[Any, Any, None] | None = None) -> None:
        """End the loop, after `work` if there is some."""
        if not self._thread.is_alive() or self.loop.is_closed():
            if work is not None:
                work.close()
        elif work is None:
            self.loop.call_soon_threadsafe(self.loop.stop)
        else:
            asyncio.run_coroutine_threadsafe(work, self.loop).add_done_callback(lambda _: self.stop_soon())


class Face(ABC):
    """What the three have in common: a loop to call into, until it is closed."""

    def __init__(self, name: str) -> None:
        self._stopped = False
        self._forked = False
        self._thread = LoopThread(name)
        _faces.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_stopped", True):
            self._stopped = True
            warn_unclosed(self)
            self._abandon()

    @abstractmethod
    def close(self) -> None:
        """End it, and the loop. Closing twice is fine."""

    def _call(self, work: Coroutine[Any, Any, T], patience: float | None = None) -> T:
        if self._stopped:
            work.close()
            raise self._refusal()
        return self._thread.call(work, patience)

    def _stop(self) -> None:
        self._stopped = True
        self._thread.stop()

    @abstractmethod
    def _abandon(self) -> None:
        """The application let go of it without closing it: disconnect, and end the loop. Any thread may call it."""

    def _refusal(self) -> KohortError:
        """Why it cannot be used any more."""
        if self._forked:
            return ConcurrentUseError(
                f"this {type(self).__name__} was made before the process forked, and its thread is not in this one:"
                " make another here, or start processes by multiprocessing's `spawn`."
            )
        return ClosedError("the client is closed.")


_faces: "weakref.WeakSet[Face]" = weakref.WeakSet()
_inherited: list[LoopThread] = []
"""Of the process that this one was forked from. They are kept: to end them would disturb the parent's sockets."""


def _forked() -> None:
    for face in list(_faces):
        face._stopped = face._forked = True
        _inherited.append(face._thread)


os.register_at_fork(after_in_child=_forked)


async def made(make: Callable[[], T]) -> T:
    """Run it in the loop: the asyncio clients belong to the loop that they were made in."""
    return make()
