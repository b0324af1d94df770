"""Isolation of a world within this Python process: random numbers and ids of clients, logging, garbage collection."""

from __future__ import annotations

import gc
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kohort.client.consume import acceleration
from kohort.client.membership import driver, membership
from kohort.client.produce import unclosed
from kohort.client.security import credentials
from kohort.model import UUID

_log = logging.getLogger("kohort")
_COLLECT_AFTER = 200_000
"""Number of objects between collections: each seed makes a new world, and few of its objects are in garbage cycles."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely. Many worlds in one such context cost less, because its end causes a collection."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


@contextmanager
def isolated(
    seed: int, failed: Callable[[str, BaseException], None], logged: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Take all randomness from the seed, pass exceptions that production logs to `failed`, and print nothing.

    `logged` is called with warnings and errors.
    """
    state, level, propagates = random.getstate(), _log.level, _log.propagate
    random.seed(f"clients {seed}")
    # A member of a consumer group generates a random id; here it depends on the seed.
    fresh_id = membership.__dict__["uuid4"]
    membership.__dict__["uuid4"] = lambda: UUID(int=random.getrandbits(128), version=4)
    secrets = credentials.__dict__["secrets"]
    credentials.__dict__["secrets"] = _Nonces
    stall_detector = driver.__dict__["StallDetector"]
    driver.__dict__["StallDetector"] = _NoStallDetector
    installed = acceleration.__dict__["installed"]
    acceleration.__dict__["installed"] = lambda: False  # a thread loads it at an unpredictable time
    unclosed_before = unclosed.__dict__["_open"]
    unclosed.__dict__["_open"] = set()  # records of a killed producer are not written when the interpreter exits
    handler = _LogHandler(failed, logged)
    _log.addHandler(handler)
    _log.setLevel(logging.ERROR if logged is None else logging.WARNING)
    _log.propagate = False
    try:
        with rare_collections():
            yield
    finally:
        _log.removeHandler(handler)
        _log.setLevel(level)
        _log.propagate = propagates
        random.setstate(state)
        membership.__dict__["uuid4"] = fresh_id
        credentials.__dict__["secrets"] = secrets
        driver.__dict__["StallDetector"] = stall_detector
        acceleration.__dict__["installed"] = installed
        unclosed.__dict__["_open"] = unclosed_before


class _Nonces:
    """Replacement for the module `secrets`: nonces that depend on the seed."""

    @staticmethod
    def token_hex(size: int) -> str:
        return random.randbytes(size).hex()


class _NoStallDetector:
    """Replacement for production's detector of stalled loops: in a long day, most events would be its checks."""

    def __init__(self, timeout_s: float, on_stall: Callable[[float], None]) -> None:
        pass

    def close(self) -> None:
        pass


class _LogHandler(logging.Handler):
    """Log handler. Production logs an exception only if it is caused by a bug."""

    def __init__(self, failed: Callable[[str, BaseException], None], logged: Callable[[str], None] | None) -> None:
        super().__init__(logging.WARNING)
        self._failed = failed
        self._logged = logged

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None and record.levelno >= logging.ERROR:
            self._failed(record.name, record.exc_info[1])
        elif self._logged is not None:
            self._logged(record.getMessage())
