"""Locks by flock, which the kernel releases when a process dies for any reason."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_ASK_AGAIN_S = 0.001
_LARGEST_CONTENT = 4096


class Busy(OSError):
    """Another process held a lock for too long."""


class FileLock:
    """A lock that this process holds until `close`."""

    def __init__(self, path: Path, *, shared: bool = False, timeout_s: float = 0.0) -> None:
        """Acquire the lock.

        Raises Busy if it is taken for longer than `timeout_s`, and another OSError if the file
        system has no locks.
        """
        self._descriptor = _opened(path)
        try:
            _acquire(self._descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, timeout_s, path)
        except BaseException:
            os.close(self._descriptor)
            raise

    def write(self, content: bytes) -> None:
        """Write the holder's information, always with the same length, so that readers never see half of it."""
        os.pwrite(self._descriptor, content, 0)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


@contextmanager
def locked(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock in a `with` block. Raises Busy."""
    lock = FileLock(path, timeout_s=timeout_s)
    try:
        yield
    finally:
        lock.close()


class WatchedLock:
    """A lock of another process and what its holder has written, by one descriptor that stays open until `close`."""

    def __init__(self, path: Path) -> None:
        """Open the file; it is made if it does not exist."""
        self._path = path
        self._descriptor = _opened(path)

    def is_held(self) -> bool:
        """Return whether a process holds the lock exclusively."""
        if _is_held(self._descriptor):
            return True
        if os.fstat(self._descriptor).st_nlink:
            return False
        # Somebody has deleted the file, and a process that has started since then has made another one.
        os.close(self._descriptor)
        self._descriptor = _opened(self._path)
        return _is_held(self._descriptor)

    def read(self) -> str:
        """Return what the holder has written; nothing if there was none."""
        return os.pread(self._descriptor, _LARGEST_CONTENT, 0).decode()

    def close(self) -> None:
        """Look no more."""
        os.close(self._descriptor)


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock exclusively."""
    with closing(WatchedLock(path)) as watched:
        return watched.is_held()


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _is_held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def _acquire(descriptor: int, kind: int, timeout_s: float, path: Path) -> None:
    give_up_at = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                raise Busy(f"{path} is locked by another process") from None
        time.sleep(_ASK_AGAIN_S)
