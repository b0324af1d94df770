"""Members that leave to come back: a process is restarted, so it leaves its group, and its next life joins soon after.

Told at once, an eager group gives up everything twice for that: for who left, and for who came. Worse, the second time
comes in the gap that follows the first, in which no classic member can be told anything. So where successors have been
coming, members are told of a leave when the successor is there. Meanwhile they go on processing; what the one that left
had waits. Learned per group and not by names, as processes are often called anew. Soft: a failover forgets it.
"""

from collections import deque
from dataclasses import dataclass, field

from kohort.model import Millis

_LONGEST: Millis = 3_000
"""Who takes longer is no successor: so long the members of an eager group take to hear of a leave elsewhere."""
_SLACK: Millis = 200


@dataclass(slots=True)
class Succession:
    """Who left one group lately, and how soon others come after."""

    takes_ms: Millis = 0
    """How long successors take; 0 where none is expected."""
    _left_at: deque[Millis] = field(default_factory=deque)
    """Of those that nobody has come after, the first to leave first."""

    def left(self, now: Millis) -> None:
        """A member said that it leaves."""
        self._forget(now)
        self._left_at.append(now)

    def came(self, now: Millis) -> None:
        """Somebody is new."""
        self._forget(now)
        if self._left_at:
            self.takes_ms = max(now - self._left_at.popleft(), self.takes_ms * 3 // 4, 1)

    def came_not(self) -> None:
        """It was waited for in vain: the next one is not."""
        self.takes_ms = 0
        self._left_at.clear()

    @property
    def is_awaited(self) -> bool:
        """Whether somebody should come soon."""
        return self.takes_ms > 0 and bool(self._left_at)

    def until(self, now: Millis) -> Millis:
        """When at the latest it should be there; the past, or now, where nobody is awaited."""
        self._forget(now)
        if not self.is_awaited:
            return now
        return self._left_at[0] + min(self.takes_ms * 3 // 2 + _SLACK, _LONGEST)

    def _forget(self, now: Millis) -> None:
        while self._left_at and not 0 <= now - self._left_at[0] <= _LONGEST:
            self._left_at.popleft()
