"""How late the machine is, for tests whose result depends on it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator


@contextlib.contextmanager
def lateness() -> Iterator[list[float]]:
    """Collect, until it is left, by how many milliseconds a thread that sleeps for 5 ms wakes late."""
    found = [0.0]
    over = threading.Event()

    def sleep_and_look() -> None:
        while not over.is_set():
            began = time.monotonic()
            over.wait(0.005)
            found.append((time.monotonic() - began - 0.005) * 1000)

    thread = threading.Thread(target=sleep_and_look)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
