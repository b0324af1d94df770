"""Timers of a member's state machine on an event loop."""

import asyncio
from collections.abc import Callable

from kohort.member import MemberTimer
from kohort.model import Millis


class MemberTimers:
    """Timers of one member. Each fires once; setting it again replaces its time, and None cancels it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fire: Callable[[MemberTimer], None]) -> None:
        self._loop = loop
        self._fire = fire
        self._armed: dict[MemberTimer, tuple[Millis, asyncio.TimerHandle]] = {}
        """Scheduled time and handle of each timer; `_due` may have moved since."""
        self._due: dict[MemberTimer, Millis | None] = {}

    def now(self) -> Millis:
        """Return the time of the clock by which timers are set, in milliseconds."""
        return int(self._loop.time() * 1000)

    def set(self, timer: MemberTimer, at: Millis | None) -> None:
        """Set the time at which the timer fires."""
        # Each poll postpones a deadline. A handle that is already scheduled checks the new time
        # when it runs.
        self._due[timer] = at
        if at is None:
            return
        armed = self._armed.get(timer)
        if armed is not None:
            if armed[0] <= at:
                return
            armed[1].cancel()
        # Add 1 ms: a timer due at 12.9 ms must not be checked while the clock reads 12.
        self._armed[timer] = at, self._loop.call_at((at + 1) / 1000, self._look, timer)

    def close(self) -> None:
        """Cancel all timers."""
        for _, handle in self._armed.values():
            handle.cancel()
        self._armed.clear()

    def _look(self, timer: MemberTimer) -> None:
        self._armed.pop(timer, None)
        at = self._due.get(timer)
        if at is None:
            return
        if self.now() < at:
            self.set(timer, at)
            return
        self._due[timer] = None
        self._fire(timer)
