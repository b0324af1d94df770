"""Pauses of the garbage collector while many long-lived objects are made, which it would examine over and over."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_FREEZE_FROM = 100_000
"""Number of new objects from which the collector's first pass would stall the event loop for milliseconds."""


class _Pause:
    """State of the pause: the number of callers, over all event loops of the process, that want it."""

    def __init__(self) -> None:
        self.wanted = 0
        self.was_enabled = False


_pause = _Pause()


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable collections in this process until the last concurrent caller has finished.

    If more than `_FREEZE_FROM` objects were made meanwhile, they are frozen: the collector never examines them again,
    and reference counting still frees them.
    """
    if _pause.wanted == 0:
        _pause.was_enabled = gc.isenabled()
        gc.disable()
    _pause.wanted += 1
    try:
        yield
    finally:
        _pause.wanted -= 1
        if _pause.wanted == 0 and _pause.was_enabled:
            if gc.get_count()[0] > _FREEZE_FROM:
                gc.freeze()
            gc.enable()
