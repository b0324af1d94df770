"""Wait until something holds at the brokers of a kit: looked at after each event, so no test sleeps."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from kohort.errors import KohortError
from kohort.recorder import RebalanceRecord
from kohort.testing.events import Event
from kohort.testing.taps import TappedBroker

T = TypeVar("T")

PATIENCE_S = 30.0
"""Default time limit of a wait, in seconds, as in kcl."""
_LOOK_EVERY_S = 0.02
"""Interval of looks while nothing happens: a log moves without an event when its writer thread has synced it."""


class Kit(Protocol):
    """What topics and groups use of `Broker` and `Cluster`."""

    nodes: list[TappedBroker]

    @property
    def rebalances(self) -> list[RebalanceRecord]: ...

    def _run(self, function: Callable[[], T]) -> T: ...

    def _await(self, work: Coroutine[Any, Any, T]) -> T: ...

    async def _awaited(self, work: Coroutine[Any, Any, T]) -> T: ...


class WaitTimeoutError(KohortError, TimeoutError):
    """What a test waited for did not happen in time. The message says what was seen instead."""


async def until(nodes: Sequence[TappedBroker], look: Callable[[], T | None], timeout_s: float) -> T | None:
    """Return the first result of `look` that is not None, or None when the time is over. Runs on the brokers' loop."""
    happened = asyncio.Event()

    def observe(event: Event) -> None:
        happened.set()

    observed = list(nodes)
    for node in observed:
        node.observers.append(observe)
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + timeout_s
    try:
        while (found := look()) is None and (left_s := ends_at - loop.time()) > 0:
            happened.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, _LOOK_EVERY_S)):
                    await happened.wait()
        return found
    finally:
        for node in observed:
            node.observers.remove(observe)


async def reached(work: Awaitable[T | None], told: Callable[[], str]) -> T:
    """Return the result of `until`. Raise WaitTimeoutError with the sentence of `told` if it is None."""
    found = await work
    if found is None:
        raise WaitTimeoutError(told())
    return found


def blocking_hint() -> str:
    """Return what to do if the caller blocks an event loop, whose clients cannot go on meanwhile; else nothing."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return ""
    return " This call blocks the event loop of the test, whose clients cannot go on meanwhile: await its _async form."
