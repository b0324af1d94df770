"""What of this Python process a world has to itself while it runs: clients' dice and ids, the log, the collector."""

from __future__ import annotations

import gc
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kohort.client import acceleration, driver, membership, unclosed
from kohort.model import UUID

_log = logging.getLogger("kohort")
_COLLECT_AFTER = 200_000
"""Objects: a world is made anew for each seed, and most of what it leaves is no garbage in cycles."""


@contextmanager
def alone(seed: int, failed: Callable[[str, BaseException], None]) -> Iterator[None]:
    """All chance comes from the seed; what production logs as an exception goes to `failed`, and nothing is printed."""
    state, level, propagates = random.getstate(), _log.level, _log.propagate
    random.seed(f"clients {seed}")
    # A member of a consumer group gives itself an id that nobody can guess; here the seed can.
    fresh_id = membership.__dict__["uuid4"]
    membership.__dict__["uuid4"] = lambda: UUID(int=random.getrandbits(128), version=4)
    pulse = driver.__dict__["Pulse"]
    driver.__dict__["Pulse"] = _NoPulse
    installed = acceleration.__dict__["installed"]
    acceleration.__dict__["installed"] = lambda: False  # it is loaded by a thread, at no certain time
    unclosed_before = unclosed.__dict__["_open"]
    unclosed.__dict__["_open"] = set()  # a killed producer's records are not written when the interpreter ends
    ears = _Ears(failed)
    _log.addHandler(ears)
    _log.setLevel(logging.ERROR)
    _log.propagate = False
    thresholds = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        _log.removeHandler(ears)
        _log.setLevel(level)
        _log.propagate = propagates
        random.setstate(state)
        membership.__dict__["uuid4"] = fresh_id
        driver.__dict__["Pulse"] = pulse
        acceleration.__dict__["installed"] = installed
        unclosed.__dict__["_open"] = unclosed_before


class _NoPulse:
    """Production's notices that a loop stood still, and says so: of a day, that would be most of what happens."""

    def __init__(self, patience_s: float, on_still: Callable[[float], None]) -> None:
        pass

    def close(self) -> None:
        pass


class _Ears(logging.Handler):
    """Production logs an exception only where it is a bug of its own."""

    def __init__(self, failed: Callable[[str, BaseException], None]) -> None:
        super().__init__(logging.ERROR)
        self._failed = failed

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self._failed(record.name, record.exc_info[1])
