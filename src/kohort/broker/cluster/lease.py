"""How long a broker over a database may answer, by its own clock; after that, others may lead its partitions."""

BEATS = 6
"""Number of renewals in each lease."""
_FENCED_FROM = 0.9
"""Fraction of the lease after which the broker is fenced; answers already in progress have the rest."""


class Lease:
    """The lease, in seconds of a monotonic clock. Others count from a renewal's arrival, which is later."""

    def __init__(self, lease_ms: int) -> None:
        self.seconds = lease_ms / 1000
        self.beat_s = self.seconds / BEATS
        """Interval between two renewals, in seconds."""
        self._fenced_at = 0.0

    def renewed(self, sent_at: float) -> None:
        """Record that the renewal sent at `sent_at` was answered."""
        self._fenced_at = sent_at + _FENCED_FROM * self.seconds

    def lost(self) -> None:
        """Record that others lead now."""
        self._fenced_at = 0.0

    def fenced(self, now: float) -> bool:
        """Return whether another broker may by now lead the partitions that this broker leads."""
        return now >= self._fenced_at
