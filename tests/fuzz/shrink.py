"""Make an input smaller that breaks a rule: cut out what it breaks the same rule without."""

from __future__ import annotations

import time

from tests.fuzz.rules import Broken, Target, check, check_memory

PATIENCE_S = 10.0


def shrunk(target: Target, broken: Broken) -> bytes:
    """The smallest that was found in `PATIENCE_S`; the input itself where nothing can go."""
    end = time.monotonic() + PATIENCE_S
    data = broken.data
    size = len(data) // 2
    while size and time.monotonic() < end:
        at = 0
        while at < len(data) and time.monotonic() < end:
            less = data[:at] + data[at + size :]
            if _breaks(target, less, broken.kind):
                data = less
            else:
                at += size
        size //= 2
    return data


def _breaks(target: Target, data: bytes, kind: str) -> bool:
    outcomes = (run(target, data) for run in (check, check_memory))
    return any(outcome.broken is not None and outcome.broken.kind == kind for outcome in outcomes)
