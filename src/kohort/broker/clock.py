"""The broker's clock: epoch milliseconds that never go backwards, even if the wall clock does."""

import time

from kohort.model import Millis

_START_MS = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000


def now_ms() -> Millis:
    """Return milliseconds since the epoch: the wall clock at start plus the monotonic time elapsed since."""
    return _START_MS + time.monotonic_ns() // 1_000_000
