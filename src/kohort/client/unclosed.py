"""Producers that nobody closed: their records are written when the interpreter ends, or reported as lost."""

import asyncio
import atexit
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

PATIENCE_S = 10.0
"""Longest time that the end of the interpreter, or of an event loop, waits for records of unclosed producers."""


class Unclosed(Protocol):
    """What holds records of a producer."""

    loop: asyncio.AbstractEventLoop

    def unwritten(self) -> int:
        """Number of records that are not decided."""

    async def finish(self, patience: float) -> int:
        """Write for that many seconds, close; the number of records that were not written."""


_open: set[Unclosed] = set()
_finishing: dict[Unclosed, asyncio.Task[int]] = {}
_tasks: set[asyncio.Task[None]] = set()
_inherited: list[Unclosed] = []
"""Of the process that this one was forked from. They are kept: to end their loops would disturb the parent's."""


def remember(producer: Unclosed) -> None:
    """It holds records from now on."""
    if not _open:
        _end_with_multiprocessing()
    _open.add(producer)


def forget(producer: Unclosed) -> None:
    """It was closed."""
    _open.discard(producer)


def abandoned(producer: Unclosed, then: Callable[[], None] | None = None) -> None:
    """Its application let go of it, in any thread: close it in its loop, or report what can no longer be written."""
    if producer.loop.is_closed():
        if producer in _open:
            forget(producer)
            report(producer.unwritten())
    elif producer.loop.is_running():
        producer.loop.call_soon_threadsafe(_finish_soon, producer, then)


def report(lost: int) -> None:
    """Write to standard error how many records were not written."""
    if lost and sys.stderr is not None:
        records = "record was" if lost == 1 else "records were"
        sys.stderr.write(
            f"kohort: {lost} {records} not written, because the producer was not closed and the brokers did not take"
            f" them within {PATIENCE_S:.0f} s. Close producers, or use them as context managers.\n"
        )


def _finish_soon(producer: Unclosed, then: Callable[[], None] | None) -> None:
    task = producer.loop.create_task(_finish_and_report(producer, then), name="kohort-unclosed-producer")
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _finish_and_report(producer: Unclosed, then: Callable[[], None] | None) -> None:
    report(await _finish(producer, PATIENCE_S))
    if then is not None:
        then()


async def _finish(producer: Unclosed, patience: float) -> int:
    """The first who asks has it finished and reports what is lost; others wait for that."""
    task = _finishing.get(producer)
    if task is not None:
        await asyncio.wait((task,))
        return 0
    task = _finishing[producer] = asyncio.get_running_loop().create_task(producer.finish(patience))
    try:
        return await task
    finally:
        del _finishing[producer]


def _finish_all() -> None:
    """Write what all of them hold, in `PATIENCE_S` together; what is left after Ctrl-C is lost."""
    deadline = time.monotonic() + PATIENCE_S
    left = list(_open)
    _open.clear()
    lost: dict[Unclosed, int] = {}
    try:
        running: dict[Unclosed, Future[int]] = {}
        for producer in left:
            if producer.loop.is_running():  # in a thread of its own
                running[producer] = asyncio.run_coroutine_threadsafe(_finish(producer, PATIENCE_S), producer.loop)
        for producer in left:
            if producer not in running and not producer.loop.is_closed():
                patience = max(0.0, deadline - time.monotonic())
                lost[producer] = producer.loop.run_until_complete(_finish(producer, patience))
        for producer, finished in running.items():
            # Its own patience is over before this one.
            lost[producer] = finished.result(max(0.0, deadline - time.monotonic()) + 1.0)
    except (KeyboardInterrupt, TimeoutError):
        pass
    report(sum(lost[producer] if producer in lost else producer.unwritten() for producer in left))


atexit.register(_finish_all)


def _end_with_multiprocessing() -> None:
    """A child of multiprocessing that was forked ends without atexit's functions."""
    module = sys.modules.get("multiprocessing.process")
    if module is not None and module.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _finish_all, exitpriority=100)


def _forked() -> None:
    _inherited.extend(_open)
    _open.clear()


os.register_at_fork(after_in_child=_forked)
