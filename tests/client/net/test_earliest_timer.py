"""One timer for many deadlines: it fires at the earliest, once."""

from __future__ import annotations

import asyncio

from kohort.client.net import EarliestTimer
from tests.client.virtual_time import in_virtual_time


class Timed:
    """A timer, and the times at which it fired, in seconds since the beginning."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.fired: list[float] = []
        self.timer = EarliestTimer(self._fire)

    def _fire(self) -> None:
        self.fired.append(round(self._loop.time() - self._began, 3))

    def by(self, seconds: float) -> None:
        self.timer.by(self._began + seconds)


def fired(*deadlines: float, cancelled_before: int = -1) -> list[float]:
    """When a timer fires that is told these deadlines at once."""

    async def run() -> list[float]:
        timed = Timed()
        for place, seconds in enumerate(deadlines):
            if place == cancelled_before:
                timed.timer.cancel()
            timed.by(seconds)
        if cancelled_before == len(deadlines):
            timed.timer.cancel()
        await asyncio.sleep(100.0)
        return timed.fired

    return in_virtual_time(run)


def test_it_fires_once_at_the_earliest_deadline() -> None:
    assert fired(5.0) == [5.0]
    assert fired(5.0, 3.0) == [3.0]
    assert fired(3.0, 5.0) == [3.0]
    assert fired(5.0, 2.0, 3.0) == [2.0]


def test_it_does_not_fire_after_it_was_cancelled_unless_it_is_told_another_deadline() -> None:
    assert fired(5.0, cancelled_before=1) == []
    assert fired(3.0, 5.0, cancelled_before=1) == [5.0]
    assert fired(cancelled_before=0) == []


def test_it_can_be_told_another_deadline_after_it_has_fired() -> None:
    async def run() -> list[float]:
        timed = Timed()
        for deadline in (1.0, 4.0):
            timed.by(deadline)
            await asyncio.sleep(2.0)
        await asyncio.sleep(2.0)
        return timed.fired

    assert in_virtual_time(run) == [1.0, 4.0]
