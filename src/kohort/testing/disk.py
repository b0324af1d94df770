"""A disk that is slow, full or failing, for any store: what it does to a broker is the broker's own reaction."""

import errno
import threading
from collections.abc import Callable
from typing import Any

from kohort.log import LogStore, Pending
from kohort.model import Millis

_CHANGES = ("create_topic", "alter_topic", "delete_topic", "keep_configs", "update_configs", "change_configs")
"""Methods of a store, besides `sync`, that write."""

FULL = OSError(errno.ENOSPC, "the disk is full: a test fills it")
FAILS = OSError(errno.EIO, "the disk fails: a test lets it")


class DiskFaults:
    """The faults of one store's disk. All writes of the store pass through it from its creation on."""

    def __init__(self, store: LogStore) -> None:
        self._delays: list[tuple[Millis, Callable[[], object]]] = []
        self._errors: list[tuple[OSError, Callable[[], object]]] = []
        self._healed = threading.Event()
        """Set when no delay is wanted, so that a sync that is under way ends."""
        self._healed.set()
        self._sync = store.sync
        # On the object: brokers behave as the class of their store demands.
        setattr(store, "sync", self._faulty_sync)  # noqa: B010  # mypy takes no assignment to a method
        for name in _CHANGES:
            setattr(store, name, self._faulty(getattr(store, name)))

    def slow(self, hit: Callable[[], object], *, sync_ms: Millis) -> Callable[[], None]:
        """Let each sync take that much longer; the longest of several delays counts. Return what ends it.

        `hit` is called for each write that this affects, from any thread.
        """
        delay = sync_ms, hit
        self._delays.append(delay)
        self._healed.clear()

        def end() -> None:
            if delay in self._delays:
                self._delays.remove(delay)
            if not self._delays:
                self._healed.set()

        return end

    def fail(self, hit: Callable[[], object], *, error: OSError) -> Callable[[], None]:
        """Let all writes fail with this error. Return what ends it. `hit` is as for `slow`."""
        failure = error, hit
        self._errors.append(failure)

        def end() -> None:
            if failure in self._errors:
                self._errors.remove(failure)

        return end

    def heal(self) -> None:
        """End all faults: the broker stops."""
        self._delays.clear()
        self._errors.clear()
        self._healed.set()

    def _faulty_sync(self, pending: Pending) -> None:
        """In the writer thread."""
        delays = list(self._delays)
        for _, hit in delays:
            hit()
        if delays:
            self._healed.wait(max(sync_ms for sync_ms, _ in delays) / 1000)
        self._check()
        self._sync(pending)

    def _faulty(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*arguments: Any, **named: Any) -> Any:
            self._check()
            return change(*arguments, **named)

        return checked

    def _check(self) -> None:
        for error, hit in self._errors[-1:]:
            hit()
            raise OSError(error.errno, error.strerror)
