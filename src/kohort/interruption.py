"""How a command ends by Ctrl-C or SIGTERM: the first one ends it in order and within a second, the second at once."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ORDERLY_S = 0.8
"""Longest time between the first signal and the end of the process, however far the orderly end has come."""


class Interrupted(KeyboardInterrupt):
    """A signal told the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


class _State:
    """Of this process."""

    installed = False
    begun: int | None = None
    callbacks: list[Callable[[], None]]

    def __init__(self) -> None:
        self.callbacks = []


_state = _State()


def install() -> None:
    """From now on SIGINT and SIGTERM raise Interrupted in the main thread. Also after a library took a signal over."""
    if not _state.installed:
        logging.getLogger().addFilter(_is_no_interruption)
    _state.installed = True
    for number in SIGNALS:
        signal.signal(number, _raise)


def _is_no_interruption(record: logging.LogRecord) -> bool:
    """Leave out what libraries (py4j) log by the root logger, with a traceback, of the signal that ends the process."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, KeyboardInterrupt)


def installed() -> bool:
    """Whether this process is a command of its own, rather than one that calls its functions."""
    return _state.installed


def begun() -> bool:
    """Whether the first signal has arrived."""
    return _state.begun is not None


def exit_code() -> int:
    """Of a process that a signal ended: 128 and its number, as shells have it."""
    return 128 + (_state.begun or signal.SIGINT)


def on_begin(callback: Callable[[], None]) -> None:
    """Call it at the first signal: to end child processes before somebody waits for them."""
    _state.callbacks.append(callback)


def at_once() -> None:
    """From now on a signal ends the process: it is ending already, or has nothing to lose."""
    if _state.installed:
        for number in SIGNALS:
            signal.signal(number, _end)


def end_at_once(number: int) -> NoReturn:
    """End the process without any more of its code."""
    os._exit(128 + number)


def run(work: Coroutine[Any, Any, T], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """As `asyncio.run`; the first signal cancels `work`, and Interrupted is raised when that has ended."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(_interruptible(work) if _state.installed else work)


async def _interruptible(work: Coroutine[Any, Any, T]) -> T:
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
