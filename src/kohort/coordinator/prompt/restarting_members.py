"""Restarting members: a process leaves its group, and the process that replaces it joins soon after.

If the members of an eager group are notified of each event at once, they give up everything twice: for
the leave and for the join. Moreover, the join arrives in the gap after the first rebalance, in which
no classic member can be notified. So in groups in which members that left have been replaced, the
other members are notified of a leave only when the successor arrives. Meanwhile they keep processing,
and the partitions of the member that left wait.

The expectation is learned per group and not by name, because a restarted process often has a new
name. The state is soft: a failover loses it.
"""

from collections import deque
from dataclasses import dataclass, field

from kohort.coordinator.prompt.client_timings import OVERDUE_MARGIN, RESTART_MAX
from kohort.model import Millis


@dataclass(slots=True)
class RestartingMembers:
    """Recent leaves of one group without a successor, and the time that successors take."""

    restart_ms: Millis = 0
    """Expected time until a successor arrives; 0 if none is expected."""
    _left_at: deque[Millis] = field(default_factory=deque)
    """Times of the leaves without a successor, oldest first."""

    def member_left(self, now: Millis) -> None:
        """Record that a member announced that it leaves."""
        self._forget(now)
        self._left_at.append(now)

    def member_arrived(self, now: Millis) -> None:
        """Record that a new member arrived."""
        self._forget(now)
        if self._left_at:
            self.restart_ms = max(now - self._left_at.popleft(), self.restart_ms * 3 // 4, 1)

    def successor_missed(self) -> None:
        """Record that the awaited successor did not arrive; the next one will not be awaited."""
        self.restart_ms = 0
        self._left_at.clear()

    @property
    def awaits_successor(self) -> bool:
        """Whether a successor is expected soon."""
        return self.restart_ms > 0 and bool(self._left_at)

    def awaits_until(self, now: Millis) -> Millis:
        """Return the latest time at which the successor should arrive; now or earlier if none is awaited."""
        self._forget(now)
        if not self.awaits_successor:
            return now
        return self._left_at[0] + min(self.restart_ms * 3 // 2 + OVERDUE_MARGIN, RESTART_MAX)

    def _forget(self, now: Millis) -> None:
        while self._left_at and not 0 <= now - self._left_at[0] <= RESTART_MAX:
            self._left_at.popleft()
