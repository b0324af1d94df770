"""An event loop in a thread of its own, for brokers that a test's thread or its own event loop must not block."""

import asyncio
import contextlib
import logging
import os
import threading
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from typing import Any, TypeVar

import uvloop

from kohort.errors import KohortError

_T = TypeVar("_T")

log = logging.getLogger("kohort.testing")

_ANSWERS_WITHIN_S = 60.0
"""Time in which the event loop must have executed a call. One that takes longer is stuck."""
_LOOK_EVERY_S = 1.0
_STOPPED_MEANWHILE = "The broker was stopped meanwhile."


class LoopThread:
    """A running event loop. The thread is not a daemon: it ends in order, at the latest when the main thread ends."""

    def __init__(self, name: str, ended_alone: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the loop. `ended_alone` is awaited if the main thread ends before `stop` is called."""
        self._ended_alone = ended_alone
        self._ready: Future[asyncio.AbstractEventLoop] = Future()
        self._failures: list[BaseException] = []
        self._process = os.getpid()
        self._open: set[Future[Any]] = set()
        """Results that callers wait for."""
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()
        self.loop = self._ready.result(_ANSWERS_WITHIN_S)

    @property
    def is_current(self) -> bool:
        """Whether the caller is on this event loop."""
        return threading.current_thread() is self._thread

    def call(self, function: Callable[[], _T]) -> _T:
        """Call a function on the loop, and return its result or raise its error."""
        if self.is_current:
            return function()
        done: Future[_T] = self._new_future()

        def run() -> None:
            if done.done():
                return
            try:
                done.set_result(function())
            except BaseException as error:  # noqa: BLE001  # raised where the result is taken
                done.set_exception(error)

        self._submit(run)
        return done.result(_ANSWERS_WITHIN_S)

    def begin(self, work: Coroutine[Any, Any, _T]) -> "Future[_T]":
        """Run a coroutine on the loop, and return its future."""
        if self.is_current:
            work.close()
            raise KohortError("This call waits for the broker's event loop, and cannot be made on it.")

        def run() -> None:
            task = self.loop.create_task(work)
            task.add_done_callback(lambda task: _pass_on(task, done))
            done.add_done_callback(lambda done: self._cancel(task) if done.cancelled() else None)

        try:
            done: Future[_T] = self._new_future()
            self._submit(run)
        except KohortError:
            work.close()
            raise
        return done

    def _cancel(self, task: "asyncio.Task[Any]") -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(task.cancel)

    def stop(self) -> None:
        """End the loop after everything that was submitted, and wait for the thread."""
        self._submit(self._stop.set)
        self._thread.join()

    def take_failure(self) -> BaseException | None:
        """Return the first error on the loop that nothing has caught, and forget it."""
        return self._failures.pop(0) if self._failures else None

    def _new_future(self) -> "Future[Any]":
        if os.getpid() != self._process:
            raise KohortError(
                f"The broker runs in process {self._process}, of which this one is a fork: connect a client to its "
                "address instead."
            )
        done: Future[Any] = Future()
        self._open.add(done)
        done.add_done_callback(self._open.discard)
        return done

    def _submit(self, run: Callable[[], object]) -> None:
        try:
            self.loop.call_soon_threadsafe(run)
        except RuntimeError:
            raise KohortError("The broker has been stopped.") from None

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        finally:
            for done in list(self._open):  # submitted while the loop ended
                with contextlib.suppress(InvalidStateError):  # its caller has given up
                    done.set_exception(KohortError(_STOPPED_MEANWHILE))

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)
        self._stop = asyncio.Event()
        self._ready.set_result(loop)
        while not self._stop.is_set():
            try:
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await self._stop.wait()
            except TimeoutError:
                if not threading.main_thread().is_alive():
                    warnings.warn("a broker of kohort.testing was not stopped", ResourceWarning, stacklevel=1)
                    await self._ended_alone()
                    return

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        loop.default_exception_handler(context)
        if error is not None and not isinstance(error, OSError):  # peers cause errors of sockets
            self._failures.append(error)


def _pass_on(task: "asyncio.Task[_T]", done: "Future[_T]") -> None:
    if done.cancelled():
        return
    if task.cancelled():
        done.set_exception(KohortError(_STOPPED_MEANWHILE))
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())
