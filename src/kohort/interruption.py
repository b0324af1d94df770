"""Termination of a command by Ctrl-C or SIGTERM.

The first signal ends it in order and within a second, a second signal immediately.
"""

import atexit
import contextlib
import functools
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ORDERLY_S = 0.8
"""Maximum time between the first signal and the end of the process, even if the shutdown is
incomplete, in seconds."""
_LOST_CONNECTION_LOGGERS = ("py4j.clientserver", "py4j.java_gateway")


class Interrupted(KeyboardInterrupt):
    """Termination requested by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


class _State:
    """State of this process."""

    installed = False
    begun: int | None = None
    callbacks: list[Callable[[], None]]

    def __init__(self) -> None:
        self.callbacks = []


_state = _State()


def install() -> None:
    """Make SIGINT and SIGTERM raise Interrupted in the main thread.

    Call it again after a library has replaced a signal handler.
    """
    if not _state.installed:
        logging.getLogger().addFilter(_is_no_interruption)
        for name in _LOST_CONNECTION_LOGGERS:
            logging.getLogger(name).addFilter(_is_no_lost_connection)
        sys.unraisablehook = functools.partial(_raise_again_soon, sys.unraisablehook)
    _state.installed = True
    for number in SIGNALS:
        signal.signal(number, _raise)


def _raise_again_soon(
    others: "Callable[[sys.UnraisableHookArgs], object]", unraisable: "sys.UnraisableHookArgs"
) -> None:
    """Raise Interrupted once more if it was raised where Python ignores exceptions, as in `__del__`.

    Python's import system has such callbacks, and a signal often arrives during imports.
    """
    if isinstance(unraisable.exc_value, Interrupted):
        signal.signal(signal.SIGALRM, _raise_again)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
    else:
        others(unraisable)


def _raise_again(_number: int, _frame: FrameType | None) -> NoReturn:
    assert _state.begun is not None
    raise Interrupted(_state.begun)


def _is_no_interruption(record: logging.LogRecord) -> bool:
    """Filter out tracebacks that libraries (py4j) log to the root logger for the signal that ends the process."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, KeyboardInterrupt)


def _is_no_lost_connection(record: logging.LogRecord) -> bool:
    """Filter out tracebacks about connections to a JVM that a signal ends along with this process."""
    return _state.begun is None or not record.exc_info


def installed() -> bool:
    """Return whether this process runs a command, rather than code that calls a command's functions."""
    return _state.installed


def begun() -> bool:
    """Return whether the first signal has arrived."""
    return _state.begun is not None


def exit_code() -> int:
    """Return the exit code of a process that a signal ended: 128 plus the signal's number, as in shells."""
    return 128 + (_state.begun or signal.SIGINT)


def on_begin(callback: Callable[[], None]) -> None:
    """Register a callback for the first signal, for example to end child processes before waiting for them."""
    _state.callbacks.append(callback)


def at_once() -> None:
    """Make later signals end the process immediately, because it is already ending or has nothing to lose."""
    if _state.installed:
        for number in SIGNALS:
            signal.signal(number, _end)


def end_at_once(number: int) -> NoReturn:
    """End the process without running any more of its code."""
    os._exit(128 + number)


def end(code: int) -> NoReturn:
    """End the process after its work is done.

    After a signal only exit handlers run. Unloading the modules of Spark and Arrow takes a quarter
    of a second on an idle core and far longer on a busy one. During that time Python handles
    neither a second signal nor our time limit.
    """
    if _state.begun is None:
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the reader may be gone
            stream.flush()
    os._exit(code)


def run(work: Coroutine[Any, Any, T], loop_factory: "Callable[[], AbstractEventLoop] | None" = None) -> T:
    """Run `work` as `asyncio.run` does. The first signal cancels it; once it has ended, Interrupted is raised."""
    begun = _interruptible(work) if _state.installed else work
    try:
        import asyncio  # imported here: before `install`, Ctrl-C prints a traceback, so `install` must not wait for it

        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(begun)
    finally:
        # A signal may arrive before they begin. Python warns about a coroutine that never does.
        begun.close()
        work.close()


async def _interruptible(work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def cancel(number: int) -> None:
        _begin(number)
        task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, cancel, number)
    try:
        return await work
    except asyncio.CancelledError:
        if _state.begun is None:
            raise
        raise Interrupted(_state.begun) from None
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        install()


def _raise(number: int, _frame: FrameType | None) -> NoReturn:
    _begin(number)
    raise Interrupted(number)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    end_at_once(number)


def _begin(number: int) -> None:
    if _state.begun is not None:
        end_at_once(number)
    _state.begun = number
    limit = threading.Timer(ORDERLY_S, end_at_once, (number,))
    limit.daemon = True
    limit.start()
    for callback in _state.callbacks:
        callback()
