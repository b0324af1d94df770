"""Timers of the coordinator's shards on the event loop: a heap, examined when its first timer is due."""

import asyncio
import heapq
from collections.abc import Callable, Collection, Hashable
from itertools import count

from kohort.broker.clock import Clock
from kohort.model import Millis


class Timers:
    """Timers by key, each of which fires once; setting a key again replaces its time, and None cancels it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._heap: list[tuple[Millis, int, Hashable, Callable[[Millis], None]]] = []
        self._due: dict[Hashable, int] = {}
        """Serial number of each key's valid heap entry; older entries are skipped when they reach the top."""
        self._serial = count()
        self._handle: asyncio.TimerHandle | None = None

    def set(self, key: Hashable, at: Millis | None, fire: Callable[[Millis], None]) -> None:
        """Call `fire(now)` at `at`, replacing the key's earlier timer; `at` None cancels the timer."""
        if at is None:
            self._due.pop(key, None)
            return
        serial = next(self._serial)
        self._due[key] = serial
        heapq.heappush(self._heap, (at, serial, key, fire))
        if self._heap[0][1] == serial:
            self._arm()
        elif len(self._heap) > 64 and len(self._heap) > 4 * len(self._due):
            self._drop_stale()

    def clock_changed(self) -> None:
        """Fire at once, in order of time, what is due after a change of the clock, and await the rest anew."""
        if self._handle is not None:
            self._handle.cancel()
        self._fire_due()

    def postpone(self, keys: Collection[Hashable], by: Millis) -> None:
        """Let the timers of these keys, if they are set, fire later by `by`."""
        if not keys:
            return
        heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[1]]
        self._heap = [(at + (by if key in keys else 0), serial, key, fire) for at, serial, key, fire in heap]
        heapq.heapify(self._heap)
        if self._heap:
            self._arm()

    def close(self) -> None:
        """Cancel all timers."""
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()

    def _drop_stale(self) -> None:
        self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[1]]
        heapq.heapify(self._heap)

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        delay_s = self._clock.seconds_until(self._heap[0][0])
        if delay_s is not None:
            self._handle = self._loop.call_later(delay_s, self._fire_due)

    def _fire_due(self) -> None:
        self._handle = None
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            _, serial, key, fire = heapq.heappop(self._heap)
            if self._due.get(key) == serial:
                del self._due[key]
                fire(now)
        if self._heap and self._handle is None:
            self._arm()
