"""Delay before the next attempt (KIP-580)."""

import random

from kohort.client.options import ClientOptions


def back_off(options: ClientOptions, failures: int) -> float:
    """Return the delay in seconds after this many consecutive failures.

    It doubles with each failure, and jitter keeps clients from retrying in step.
    """
    delay: float = min(options.retry_backoff_ms * 2 ** min(failures - 1, 16), options.retry_backoff_max_ms)
    return delay * random.uniform(0.8, 1.2) / 1000
