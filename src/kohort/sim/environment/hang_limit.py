"""Limit of CPU time for a world. A world that hangs consumes no virtual time, so nothing inside would detect it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

CPU_S = 900.0
"""Maximum CPU time in seconds; a calm day of forty groups takes tens of seconds."""


class WorldHangs(BaseException):
    """Error for an endless loop. It is no Exception, so that no handler of production code catches it."""


@contextmanager
def cpu_limit(seconds: float = CPU_S) -> Iterator[None]:
    """Raise WorldHangs after `seconds` of CPU time; without effect in other threads than the main one.

    Signals reach the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def tell(number: int, frame: FrameType | None) -> None:
        raise WorldHangs(f"no end within {seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, tell)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
