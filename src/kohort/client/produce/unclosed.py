"""Producers that were not closed: their records are written or reported as lost when the interpreter exits."""

import asyncio
import atexit
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

FINISH_TIMEOUT_S = 10.0
"""Maximum delay of the interpreter's exit, or of an event loop's end, for unclosed producers, in seconds."""


class Unclosed(Protocol):
    """Producer that may hold unwritten records."""

    loop: asyncio.AbstractEventLoop

    def unwritten(self) -> int:
        """Return the number of records that are neither written nor failed."""

    async def finish(self, timeout_s: float) -> int:
        """Write for up to `timeout_s` seconds, close, and return the number of unwritten records."""


_open: set[Unclosed] = set()
_finishing: dict[Unclosed, asyncio.Task[int]] = {}
_tasks: set[asyncio.Task[None]] = set()
_inherited: list[Unclosed] = []
"""Producers of the parent process of a fork.

They are kept alive, because closing their loops would disturb the parent's.
"""


def watch_unclosed(producer: Unclosed) -> None:
    """Register a producer that holds records from now on."""
    if not _open:
        _end_with_multiprocessing()
    _open.add(producer)


def unwatch_unclosed(producer: Unclosed) -> None:
    """Unregister a closed producer."""
    _open.discard(producer)


def finish_abandoned(producer: Unclosed, then: Callable[[], None] | None = None) -> None:
    """Close a producer that its application dropped, or report the records that can no longer be written.

    Closing happens in the producer's loop. Safe to call from any thread.
    """
    if producer.loop.is_closed():
        if producer in _open:
            unwatch_unclosed(producer)
            report(producer.unwritten())
    elif producer.loop.is_running():
        producer.loop.call_soon_threadsafe(_finish_soon, producer, then)


def report(lost: int) -> None:
    """Write the number of unwritten records to standard error."""
    if lost and sys.stderr is not None:
        records = "record was" if lost == 1 else "records were"
        sys.stderr.write(
            f"kohort: {lost} {records} not written, because the producer was not closed and the brokers did not take"
            f" them within {FINISH_TIMEOUT_S:.0f} s. Close producers, or use them as context managers.\n"
        )


def _finish_soon(producer: Unclosed, then: Callable[[], None] | None) -> None:
    task = producer.loop.create_task(_finish_and_report(producer, then), name="kohort-unclosed-producer")
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _finish_and_report(producer: Unclosed, then: Callable[[], None] | None) -> None:
    report(await _finish(producer, FINISH_TIMEOUT_S))
    if then is not None:
        then()


async def _finish(producer: Unclosed, timeout_s: float) -> int:
    """Finish a producer and return the number of lost records; a concurrent call waits and returns 0."""
    task = _finishing.get(producer)
    if task is not None:
        await asyncio.wait((task,))
        return 0
    task = _finishing[producer] = asyncio.get_running_loop().create_task(producer.finish(timeout_s))
    try:
        return await task
    finally:
        del _finishing[producer]


def _finish_all() -> None:
    """Write the records of all producers within FINISH_TIMEOUT_S in total. Ctrl-C abandons the rest."""
    deadline = time.monotonic() + FINISH_TIMEOUT_S
    left = list(_open)
    _open.clear()
    lost: dict[Unclosed, int] = {}
    try:
        running: dict[Unclosed, Future[int]] = {}
        for producer in left:
            if producer.loop.is_running():  # in a separate thread
                running[producer] = asyncio.run_coroutine_threadsafe(_finish(producer, FINISH_TIMEOUT_S), producer.loop)
        for producer in left:
            if producer not in running and not producer.loop.is_closed():
                timeout_s = max(0.0, deadline - time.monotonic())
                lost[producer] = producer.loop.run_until_complete(_finish(producer, timeout_s))
        for producer, finished in running.items():
            # Its own timeout ends before this one.
            lost[producer] = finished.result(max(0.0, deadline - time.monotonic()) + 1.0)
    except (KeyboardInterrupt, TimeoutError):
        pass
    report(sum(lost[producer] if producer in lost else producer.unwritten() for producer in left))


atexit.register(_finish_all)


def _end_with_multiprocessing() -> None:
    """Register `_finish_all` with multiprocessing: its forked children exit without atexit functions."""
    module = sys.modules.get("multiprocessing.process")
    if module is not None and module.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _finish_all, exitpriority=100)


def _forked() -> None:
    _inherited.extend(_open)
    _open.clear()


os.register_at_fork(after_in_child=_forked)
