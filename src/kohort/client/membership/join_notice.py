"""Notice of a member that waits for the first rebalance of its group."""

import asyncio
import logging

from kohort.member import Phase

join_log = logging.getLogger(__name__)
"""Logger of the notice alone, so that `kohort consume` can show it."""

_WAIT_S = 1.0
"""Time without an answer to JoinGroup after which the notice is logged. A broker's usual delay is 3 s."""


class JoinNotice:
    """Log message, at most one, that says why the first join of a classic member takes time."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._done = False

    def entered(self, phase: Phase) -> None:
        """Handle the member's next phase: wait in the first JOINING, and end when it has its assignment."""
        self.close()
        if phase is Phase.JOINING and not self._done:
            self._timer = self._loop.call_later(_WAIT_S, self._notify)
        self._done = self._done or phase is Phase.STABLE

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _notify(self) -> None:
        self._done = True
        join_log.info(
            "group %s: waiting for other members to join. A group without members waits 3 s by default;"
            " group.initial.rebalance.delay.ms=0 on the broker turns this off.",
            self._group_id,
        )
