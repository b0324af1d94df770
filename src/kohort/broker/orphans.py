"""Processes that end with the one that started them."""

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl


def end_with_parent() -> None:
    """For `preexec_fn`, of a gentle end: a parent that is killed cannot stop what it started, so the kernel does."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
