"""A timer that looks after many deadlines: it fires at the earliest that it was told of."""

import asyncio
from collections.abc import Callable


class Alarm:
    """`callback` tells it of the deadlines that are left. (A uvloop handle of what is due now knows no time.)"""

    __slots__ = ("_at", "_callback", "_handle", "_loop")

    def __init__(self, callback: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None
        self._at = 0.0

    def by(self, at: float) -> None:
        """Fire at that time of the loop, if not earlier."""
        if self._handle is not None:
            if self._at <= at:
                return
            self._handle.cancel()
        self._at = at
        self._handle = self._loop.call_at(at, self._fire)

    def cancel(self) -> None:
        """Do not fire."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._callback()
