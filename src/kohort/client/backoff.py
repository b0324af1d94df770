"""How long to wait before the next attempt (KIP-580)."""

import random

from kohort.client.options import ClientOptions


def back_off(options: ClientOptions, failures: int) -> float:
    """Seconds, after so many failures in a row: doubled each time, and never the same for two clients."""
    delay: float = min(options.retry_backoff_ms * 2 ** min(failures - 1, 16), options.retry_backoff_max_ms)
    return delay * random.uniform(0.8, 1.2) / 1000
