"""Timer for many deadlines, which fires at the earliest one."""

import asyncio
from collections.abc import Callable


class EarliestTimer:
    """Timer that fires at the earliest requested time.

    `callback` requests the remaining deadlines again. The time is stored here, because uvloop's
    handle for a timer that is due now does not provide it.
    """

    __slots__ = ("_at", "_callback", "_handle", "_loop")

    def __init__(self, callback: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None
        self._at = 0.0

    def by(self, at: float) -> None:
        """Fire at this time of the loop or earlier."""
        if self._handle is not None:
            if self._at <= at:
                return
            self._handle.cancel()
        self._at = at
        self._handle = self._loop.call_at(at, self._fire)

    def cancel(self) -> None:
        """Cancel the timer."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._callback()
