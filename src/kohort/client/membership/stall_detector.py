"""Detection of a blocked event loop, which also blocks heartbeats."""

import asyncio
from collections.abc import Callable


class StallDetector:
    """Detector of a blocked event loop.

    A timer fires twice per `timeout_s`. If it is late by more than `timeout_s`, `on_stall` is
    called with the delay in seconds.
    """

    def __init__(self, timeout_s: float, on_stall: Callable[[float], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._patience_s = timeout_s
        self._on_stall = on_stall
        self._arm()

    def close(self) -> None:
        """Cancel the timer."""
        self._timer.cancel()

    def _arm(self) -> None:
        self._due_at = self._loop.time() + self._patience_s / 2
        self._timer = self._loop.call_at(self._due_at, self._beat)

    def _beat(self) -> None:
        late = self._loop.time() - self._due_at
        self._arm()
        if late > self._patience_s:
            self._on_stall(late)
