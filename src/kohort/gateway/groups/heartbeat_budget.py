"""How many heartbeats of a group the gateway may add to those of its members. Pure."""

from kohort.model import Millis

ALLOWED = 1.2
"""Heartbeats that the coordinator may get, for each one that it would get without the gateway."""
_SAVED_MS: Millis = 10_000
"""Time in which heartbeats that were not sent can be made up for by probes."""


class HeartbeatBudget:
    """Heartbeats that a group may still send: members' own and probes for what the gateway cannot see.

    Members whose heartbeats are held send fewer, which leaves room for probes.
    """

    __slots__ = ("_at", "_left")

    def __init__(self, now: Millis) -> None:
        self._at, self._left = now, 0.0

    def sent(self, per_ms: float, now: Millis) -> None:
        """Count a heartbeat that was sent, in a group whose members would send `per_ms` per millisecond."""
        self._refill(per_ms, now)
        self._left -= 1

    def allows(self, per_ms: float, now: Millis) -> bool:
        """Return whether one more may be sent."""
        self._refill(per_ms, now)
        return self._left >= 1

    def _refill(self, per_ms: float, now: Millis) -> None:
        rate = ALLOWED * per_ms
        # What was sent because something happened counts as well, but does not silence a group for long.
        most = max(rate * _SAVED_MS, 1.0)
        self._left = max(min(self._left + rate * max(now - self._at, 0), most), -most)
        self._at = now
