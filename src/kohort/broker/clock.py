"""The broker's clock: epoch milliseconds that never go backwards, whatever happens to the wall clock."""

import time

from kohort.model import Millis

_START_MS = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000


def now_ms() -> Millis:
    """Milliseconds since the epoch, by the wall clock at start and the monotonic clock since."""
    return _START_MS + time.monotonic_ns() // 1_000_000
