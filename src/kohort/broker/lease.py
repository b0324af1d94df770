"""Until when a broker over a database may answer, by its own clock: others may lead what it led from then on."""

BEATS = 6
"""In each lease."""
_FENCED_FROM = 0.9
"""Of the lease: what was about to be answered has the rest of it."""


class Lease:
    """Times in seconds, of a clock that never goes back. Others count from when a renewal arrives, which is later."""

    def __init__(self, lease_ms: int) -> None:
        self.seconds = lease_ms / 1000
        self.beat_s = self.seconds / BEATS
        """Between two renewals."""
        self._fenced_at = 0.0

    def renewed(self, sent_at: float) -> None:
        """The renewal that was sent then was answered."""
        self._fenced_at = sent_at + _FENCED_FROM * self.seconds

    def lost(self) -> None:
        """Others lead."""
        self._fenced_at = 0.0

    def fenced(self, now: float) -> bool:
        """Whether another may lead by now what this broker leads."""
        return now >= self._fenced_at
