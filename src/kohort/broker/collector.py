"""The garbage collector stays away while many objects are made that live long: it would look at them over and over."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_FREEZE_FROM = 100_000
"""So many new objects would stall the event loop for milliseconds when the collector meets them first."""


class _Pause:
    """How many want it away now, of all event loops of the process."""

    def __init__(self) -> None:
        self.wanted = 0
        self.was_enabled = False


_pause = _Pause()


@contextmanager
def without_collector() -> Iterator[None]:
    """No collections in this process until the last of those who want none is done.

    If very much was made meanwhile it is frozen: never looked at again, and freed like all else when nobody holds it.
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
