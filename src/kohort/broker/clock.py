"""The broker's clock: epoch milliseconds that never go backwards, even if the wall clock does.

A broker reads time through one `Clock`. It has two faces, which differ only if a test controls the time:

- `now` is the time of the broker's timers: sessions, rebalances, held heartbeats, grace periods, and the expiry of
  offsets, records and producers.
- `wall` is real time: timestamps of records, lifetimes of tokens and sessions of authentication, quotas.

Leases of a cluster follow neither, but the monotonic clock of the machine.
"""

import time
from collections.abc import Callable

from kohort.model import Millis

_START_MS = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000


def now_ms() -> Millis:
    """Return milliseconds since the epoch: the wall clock at start plus the monotonic time elapsed since."""
    return _START_MS + time.monotonic_ns() // 1_000_000


class Clock:
    """The time of one broker: that of `source`, which returns milliseconds since the epoch."""

    def __init__(self, source: Callable[[], Millis] = now_ms) -> None:
        self.now: Callable[[], Millis] = source
        self.wall: Callable[[], Millis] = source
        self.rate = 1.0
        """Milliseconds of `now` per real millisecond; 0 while the clock is frozen."""

    def seconds_until(self, at: Millis) -> float | None:
        """Return the real time until the clock shows `at`, in seconds; None if it stands still before that."""
        return max(0, at - self.now()) / 1000

    def written_before(self, age: Millis) -> Millis:
        """Return the record timestamp at which records have that age now: older records are older than `age`."""
        return self.now() - age
