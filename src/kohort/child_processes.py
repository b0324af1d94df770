"""Child processes that do not receive the terminal's Ctrl-C and that end with the process that started them."""

import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl

_ENDING = (signal.SIGINT, signal.SIGTERM)


class _Blocked(threading.local):
    """The number of `starting_child` blocks that a thread is in, and the signals that it blocked before."""

    depth = 0
    before: frozenset[int] = frozenset()


_blocked = _Blocked()


@contextlib.contextmanager
def starting_child(by: signal.Signals) -> Iterator[Callable[[], None]]:
    """Yield the `preexec_fn` for a child that is started inside the block with `start_new_session`.

    The kernel sends `by` to the child when this process ends: a parent that is killed cannot stop its children. The
    kernel regards the thread that starts the child as its parent.

    SIGINT and SIGTERM of this thread are blocked until the block ends. Otherwise, a Ctrl-C between the fork and the
    new session would also reach the child, a copy of this process that would handle it with this process's handlers.
    """
    parent = os.getpid()

    def prepare() -> None:
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)  # discards a pending signal, which is for the parent
            signal.signal(number, signal.SIG_DFL)
        end_with_parent(by)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        if os.getppid() != parent:
            os._exit(128 + by)

    # Counted because coroutines of one thread may be in this block at the same time.
    if _blocked.depth == 0:
        _blocked.before = frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING))
    _blocked.depth += 1
    try:
        yield prepare
    finally:
        _blocked.depth -= 1
        if _blocked.depth == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, _blocked.before)


def end_with_parent(by: signal.Signals) -> None:
    """Make the kernel send `by` to this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, by)
