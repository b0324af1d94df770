"""A world that hangs takes no virtual time, so nothing in it would ever notice: the processor's time ends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

CPU_S = 900.0
"""Of processor time; a calm day of forty groups takes tens of them."""


class Endless(BaseException):
    """Something goes on for ever. No handler of production's for exceptions swallows it."""


@contextmanager
def patience(seconds: float = CPU_S) -> Iterator[None]:
    """Raise Endless in what takes longer; not in a thread beside the main one, which no signal reaches."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def tell(number: int, frame: FrameType | None) -> None:
        raise Endless(f"no end within {seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, tell)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
