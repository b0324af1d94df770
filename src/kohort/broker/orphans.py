"""Processes that end with the one that started them."""

import ctypes
from signal import Signals

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl


def end_with_parent(by: Signals) -> None:
    """For `preexec_fn`: a parent that is killed cannot stop what it started, so the kernel does.

    It counts the thread that started the child as its parent.
    """
    _prctl(_PR_SET_PDEATHSIG, by)
