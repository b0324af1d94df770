"""Servers in child processes, as the laboratory starts them, and a wait for what they do."""

from __future__ import annotations

import time
from collections.abc import Callable

from kohort.lab.process import NotReady, ServerProcess

__all__ = ["NotReady", "ServerProcess", "until"]


def until(timeout: float, attempt: str, condition: Callable[[], object]) -> None:
    """Poll `condition()` every 20 ms until it holds; an assertion that names `attempt` when it never does."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{attempt}: not within {timeout} s"
        time.sleep(0.02)
