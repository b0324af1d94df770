"""Notices that an event loop stood still: then heartbeats did, too."""

import asyncio
from collections.abc import Callable


class Pulse:
    """Beats twice in `patience_s`. `on_still` is told how many seconds the loop stood still, if longer than that."""

    def __init__(self, patience_s: float, on_still: Callable[[float], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._patience_s = patience_s
        self._on_still = on_still
        self._arm()

    def close(self) -> None:
        """Beat no more."""
        self._timer.cancel()

    def _arm(self) -> None:
        self._due_at = self._loop.time() + self._patience_s / 2
        self._timer = self._loop.call_at(self._due_at, self._beat)

    def _beat(self) -> None:
        late = self._loop.time() - self._due_at
        self._arm()
        if late > self._patience_s:
            self._on_still(late)
