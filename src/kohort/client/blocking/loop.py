"""Event loop in a daemon thread, and the base of the blocking clients."""

import asyncio
import atexit
import os
import sys
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Self, TypeVar

import uvloop

from kohort.client.failures import ClosedError, ConcurrentUseError
from kohort.client.loops import warn_unclosed
from kohort.errors import KohortError

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]
"""Makes the coroutine to run, such as a bound method of an asyncio client."""

_CANCEL_S = 1.0
"""Time that cancelled tasks have to end when their loop stops, in seconds."""
_PARK_S = 2 * _CANCEL_S
"""Longest time that the end of the interpreter waits for all loops to stop, in seconds."""
_INTERPRETER_ENDED = "the interpreter exits: use clients, and close them, before its exit functions end."


class LoopThread:
    """Event loop in a daemon thread."""

    def __init__(self, name: str) -> None:
        if sys.is_finalizing():  # a thread that starts now never runs, and `start` would wait for it
            raise ClosedError(_INTERPRETER_ENDED)
        self.loop = uvloop.new_event_loop()
        self._awaited: set[Future[Any]] = set()
        self._ending = self._parking = False
        self._parked = threading.Event()
        self.current: Future[Any] | None = None
        """Future that a thread waits for in `wait`. A signal handler of that thread may cancel it."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        _LastExitFunction.register()
        _running.add(self)
        try:
            self._thread.start()
        except RuntimeError:  # the system has no more threads
            _running.discard(self)
            self.loop.close()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            if self._parking:
                self._parked.set()
                threading.Event().wait()  # for the end of the process
        finally:
            self._ending = True
            # Cancel the futures of tasks that no longer run, so that no thread waits for them.
            for future in list(self._awaited):
                future.cancel()
            self._cancel_tasks()
            self.loop.close()
            _running.discard(self)
            self._parked.set()

    def _cancel_tasks(self) -> None:
        """Cancel the tasks that are left: one that has not begun would warn that it was never awaited."""
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=_CANCEL_S))

    def submit(self, work: Work[T]) -> "Future[T]":
        """Run the coroutine that `work` returns in the loop, and return its future.

        `work` is called in the loop's thread. A signal handler may raise at any line of the main
        thread, and a coroutine that is lost there warns that it was never awaited.
        """
        if threading.current_thread() is self._thread:
            raise KohortError("a blocking call from inside the event loop would wait for itself.")
        future = Future[T]()
        self._awaited.add(future)
        future.add_done_callback(self._awaited.discard)
        self.loop.call_soon_threadsafe(self._begin, work, future)
        return future

    def _begin(self, work: Work[T], future: "Future[T]") -> None:
        if future.cancelled():
            return
        task = self.loop.create_task(_run(work))
        task.add_done_callback(lambda _: _tell(future, task))
        future.add_done_callback(lambda _: self._cancel_soon(task))

    def _cancel_soon(self, task: "asyncio.Task[Any]") -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(task.cancel)

    def call(self, work: Work[T], timeout_s: float | None = None) -> T:
        """Run `work` in the loop and return its result. See `submit`.

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

    def _stop_forever(self) -> None:
        if not self._ending:  # the loop runs once more for the tasks that are cancelled
            self.loop.stop()

    def park_soon(self) -> None:
        """Ask the loop to stop as it is, with its thread, for the end of the interpreter.

        Nothing is cancelled: a daemon thread of the application that waits for the loop would print an error.
        """
        self._parking = True
        with suppress(RuntimeError):  # it has just been closed
            self.stop_soon()

    def wait_until_parked(self, timeout_s: float) -> None:
        """Wait until the loop has stopped after `park_soon`."""
        self._parked.wait(timeout_s)

    def stop_soon(self, work: Work[None] | None = None) -> None:
        """Stop the loop, after the coroutine that `work` returns if given."""
        if not self._thread.is_alive() or self.loop.is_closed():
            return
        if work is None:
            self.loop.call_soon_threadsafe(self._stop_forever)
        else:
            future = Future[None]()
            future.add_done_callback(lambda _: self.stop_soon())
            self.loop.call_soon_threadsafe(self._begin, work, future)


async def _run(work: Work[T]) -> T:
    return await work()


def _tell(future: "Future[T]", task: "asyncio.Task[T]") -> None:
    """Give the future what the task has ended with."""
    if task.cancelled():
        future.cancel()
    if not future.set_running_or_notify_cancel():
        return
    problem = task.exception()
    if problem is None:
        future.set_result(task.result())
    else:
        future.set_exception(problem)


class BlockingClient(ABC):
    """Base of the blocking clients: an event loop to call into until the client is closed."""

    # Ctrl-C may interrupt a constructor at any line, and `__del__` then sees a partly built object.
    _stopped = True
    _made = False
    """Whether the attributes that `_abandon` needs exist."""
    _interpreter_ended = False
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

    def _call(self, work: Work[T], timeout_s: float | None = None) -> T:
        if self._stopped:
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

    def _end_with_interpreter(self) -> None:
        """Refuse to work, because the loop does not run any more."""
        if self._made and self._warns_unclosed and not self._stopped:
            warn_unclosed(self)
        self._stopped = self._interpreter_ended = True

    def _refusal(self) -> KohortError:
        """Return the error that explains why the client cannot be used any more."""
        if self._interpreter_ended:
            if threading.current_thread() is not threading.main_thread():
                threading.Event().wait()  # a daemon thread would print the error
            return ClosedError(_INTERPRETER_ENDED)
        if self._forked:
            return ConcurrentUseError(
                f"this {type(self).__name__} was made before the process forked, and its thread is not in this one:"
                " make another here, or start processes by multiprocessing's `spawn`."
            )
        return ClosedError("the client is closed.")


_running: set[LoopThread] = set()
_clients: "weakref.WeakSet[BlockingClient]" = weakref.WeakSet()
_inherited: list[LoopThread] = []
"""Threads of the parent process of a fork.

They are kept alive, because stopping them would disturb the parent's sockets.
"""


def _forked() -> None:
    for client in list(_clients):
        client._inherit()
    _inherited.extend(_running)
    _running.clear()


os.register_at_fork(after_in_child=_forked)


def _park_all() -> None:
    """Stop all loops, because the interpreter exits.

    uvloop asks for the interpreter whenever a socket has something to read, also when there is none any more: the
    process would then end by a segmentation fault.
    """
    deadline = time.monotonic() + _PARK_S
    parking = list(_running)
    for thread in parking:
        thread.park_soon()
    for thread in parking:
        thread.wait_until_parked(max(0.0, deadline - time.monotonic()))
    for client in list(_clients):
        client._end_with_interpreter()


class _LastExitFunction:
    """Object that the interpreter drops after the last exit function, when threads still run.

    Exit functions of the application, of `logging` and of unclosed producers use clients, and run in the reverse
    order of their registration.
    """

    _is_registered = False
    _ran = False

    @classmethod
    def register(cls) -> None:
        """Register an object, unless there is one."""
        if not cls._is_registered:
            cls._is_registered = True
            atexit.register(cls())

    def __call__(self) -> None:
        self._ran = True

    def __del__(self) -> None:
        type(self)._is_registered = False
        if self._ran:  # if not, multiprocessing has cleared the exit functions of a process that it has just forked
            _park_all()


async def call_in_loop(make: Callable[[], T]) -> T:
    """Call `make` in the event loop, because an asyncio client belongs to the loop that creates it."""
    return make()
