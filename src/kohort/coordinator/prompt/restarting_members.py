"""Restarting members: a process leaves its group, and the process that replaces it joins soon after.

If the members of an eager group are notified of each event at once, they give up everything twice: for
the leave and for the join. Moreover, the join arrives in the gap after the first rebalance, in which
no classic member can be notified. So in groups in which members that left have been replaced, the
other members are notified of a leave only when the successor arrives. Meanwhile they keep processing,
and the partitions of the member that left wait.

That is worthwhile only if these partitions wait for less time in sum than all partitions would in a
rebalance more. In a small group that rebalances in a twentieth of a second, they do not.

The expectation is learned per group and not by name, because a restarted process often has a new
name. The state is soft: a failover loses it.
"""

from collections import deque
from dataclasses import dataclass, field

from kohort.coordinator.prompt.client_timings import OVERDUE_MARGIN, RESTART_MAX, UNSEEN_PART_OF_REBALANCE
from kohort.model import Millis


@dataclass(slots=True)
class RestartingMembers:
    """Recent leaves of one group without a successor, and the time that successors take."""

    restart_ms: Millis = 0
    """Expected time until a successor arrives; 0 if none is expected."""
    rebalance_ms: Millis = 0
    """Time from the notification of the last rebalance to its generation; 0 if unknown."""
    _left_at: deque[Millis] = field(default_factory=deque)
    """Times of the leaves without a successor, oldest first."""
    _notified_at: Millis | None = None
    """Time at which members were notified of a rebalance whose generation was not seen yet."""

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

    def members_notified(self, now: Millis) -> None:
        """Record that the members are notified of a rebalance, and give up everything."""
        if self._notified_at is None:
            self._notified_at = now

    def generation_ended(self, began_at: Millis | None) -> None:
        """Record when the generation began that a new rebalance ends; None if there is none."""
        if self._notified_at is not None and began_at is not None and began_at >= self._notified_at:
            self.rebalance_ms = max(began_at - self._notified_at, 1)
            self._notified_at = None

    def awaits_successor(self, remaining: int) -> bool:
        """Return whether a successor is expected soon and should be awaited.

        - `remaining`: Number of members that have not left.
        """
        left = len(self._left_at)
        if not left or not self.restart_ms:
            return False
        if not self.rebalance_ms:
            return True
        # In units of the partitions of one member: those of all members that left, and those of all.
        waiting = left * self.restart_ms
        rebalancing = (remaining + left) * self.rebalance_ms * UNSEEN_PART_OF_REBALANCE
        return waiting <= rebalancing

    def awaits_until(self, now: Millis) -> Millis:
        """Return the latest time at which an awaited successor should arrive; now or earlier if it is overdue."""
        self._forget(now)
        if not self._left_at:
            return now
        return self._left_at[0] + min(self.restart_ms * 3 // 2 + OVERDUE_MARGIN, RESTART_MAX)

    def _forget(self, now: Millis) -> None:
        while self._left_at and not 0 <= now - self._left_at[0] <= RESTART_MAX:
            self._left_at.popleft()
