"""Event loop in a daemon thread, and the base of the blocking clients."""

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

_CANCEL_S = 1.0
"""Time that cancelled tasks have to end when their loop stops, in seconds."""


class LoopThread:
    """Event loop in a daemon thread."""

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self._awaited: set[Future[Any]] = set()
        self.current: Future[Any] | None = None
        """Future that a thread waits for in `wait`. A signal handler of that thread may cancel it."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            # Cancel the futures of tasks that no longer run, so that no thread waits for them.
            for future in list(self._awaited):
                future.cancel()
            self._cancel_tasks()
            self.loop.close()

    def _cancel_tasks(self) -> None:
        """Cancel the tasks that are left: one that has not begun would warn that it was never awaited."""
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=_CANCEL_S))

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run `work` in the loop and return its future."""
        if threading.current_thread() is self._thread:
            work.close()
            raise KohortError("a blocking call from inside the event loop would wait for itself.")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        self._awaited.add(future)
        future.add_done_callback(self._awaited.discard)
        return future

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run `work` in the loop and return its result.

        An interrupt (Ctrl-C) cancels it, and so does the TimeoutError after `timeout_s` seconds.
        """
        return self.wait(self.submit(work), lambda future: future.result(timeout_s))

    def wait(self, future: "Future[T]", until: Callable[["Future[T]"], T]) -> T:
        """Return `until(future)`, which waits for the future. Any exception while waiting cancels the future."""
        before, self.current = self.current, future
        try:
            return until(future)
        except BaseException:
            future.cancel()
            raise
        finally:
            self.current = before

    def stop(self) -> None:
        """Stop the loop and wait for its end. Running tasks are cancelled."""
        self.stop_soon()
        self._thread.join()

    def stop_soon(self, work: Coroutine[Any, Any, None] | None = None) -> None:
        """Stop the loop, after `work` if given."""
        if not self._thread.is_alive() or self.loop.is_closed():
            if work is not None:
                work.close()
        elif work is None:
            self.loop.call_soon_threadsafe(self.loop.stop)
        else:
            asyncio.run_coroutine_threadsafe(work, self.loop).add_done_callback(lambda _: self.stop_soon())


class BlockingClient(ABC):
    """Base of the blocking clients: an event loop to call into until the client is closed."""

    # Ctrl-C may interrupt a constructor at any line, and `__del__` then sees a partly built object.
    _stopped = True
    _made = False
    """Whether the attributes that `_abandon` needs exist."""
    _warns_unclosed = True
    """Whether a client that is garbage-collected before it is closed emits a ResourceWarning."""

    def __init__(self, name: str) -> None:
        self._stopped = False
        self._forked = False
        self._thread = LoopThread(name)
        _clients.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if exc[0] is None or not self._forked:  # a forked child that leaves the block has nothing to close
            self.close()

    def __del__(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        if self._made:
            if self._warns_unclosed:
                warn_unclosed(self)
            self._abandon()
        elif (thread := getattr(self, "_thread", None)) is not None:
            thread.stop_soon()

    @abstractmethod
    def close(self) -> None:
        """Close the client and its event loop. Closing twice is allowed."""

    def _call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        if self._stopped:
            work.close()
            raise self._refusal()
        return self._thread.call(work, timeout_s)

    def _stop(self) -> None:
        self._stopped = True
        self._thread.stop()

    @abstractmethod
    def _abandon(self) -> None:
        """Disconnect and stop the loop, after the application dropped the client.

        Safe to call from any thread.
        """

    def _inherit(self) -> None:
        """Refuse to work, because this process is a fork of the client's."""
        self._stopped = self._forked = True

    def _check_process(self) -> None:
        if self._forked:
            raise self._refusal()

    def _refusal(self) -> KohortError:
        """Return the error that explains why the client cannot be used any more."""
        if self._forked:
            return ConcurrentUseError(
                f"this {type(self).__name__} was made before the process forked, and its thread is not in this one:"
                " make another here, or start processes by multiprocessing's `spawn`."
            )
        return ClosedError("the client is closed.")


_clients: "weakref.WeakSet[BlockingClient]" = weakref.WeakSet()
_inherited: list[LoopThread] = []
"""Threads of the parent process of a fork.

They are kept alive, because stopping them would disturb the parent's sockets.
"""


def _forked() -> None:
    for client in list(_clients):
        client._inherit()
        _inherited.append(client._thread)


os.register_at_fork(after_in_child=_forked)


async def call_in_loop(make: Callable[[], T]) -> T:
    """Call `make` in the event loop, because an asyncio client belongs to the loop that creates it."""
    return make()
