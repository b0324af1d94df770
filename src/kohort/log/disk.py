"""The writer thread's half of the file store: gathered writes, then the cheapest way to make them durable."""

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kohort.log.descriptors import Descriptors, SegmentFile
from kohort.log.directory import sync_directory
from kohort.wire.compression import Buffer

_MAX_PARTS = 1024
"""IOV_MAX of Linux."""


Write = tuple[SegmentFile, int, list[Buffer]]
"""A file, where in it, and what."""


class Disk:
    """Writes and syncs. Used by one thread at a time."""

    def __init__(self, root: Path, max_open: int) -> None:
        self._root = root
        self._descriptors = Descriptors(max_open, os.O_RDWR | os.O_CREAT)
        self._root_descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        self.choice = SyncChoice(can_sync_all=_syncfs is not None)
        self._new_names: set[Path] = set()
        """Directories with names in them that are not durable yet."""

    def write(self, writes: Sequence[Write]) -> None:
        """Durable when it returns. Raises OSError: then any part of it may be on disk."""
        if not writes:
            return
        started = time.perf_counter()
        cost = len(writes) + 2 * sum(not file.exists for file, _, _ in writes)
        if self.choice.sync_all(cost):
            for write in writes:
                self._write(write)
            self._sync_all()
            self.choice.learn_all(time.perf_counter() - started)
        else:
            capacity = self._descriptors.capacity  # an evicted file could not be synced any more
            for start in range(0, len(writes), capacity):
                chunk = writes[start : start + capacity]
                for descriptor in [self._write(write) for write in chunk]:
                    os.fdatasync(descriptor)
            self._sync_new_names()
            self.choice.learn_each(time.perf_counter() - started, cost)

    def create(self, file: SegmentFile) -> None:
        """Make an empty file, durably."""
        self._open(file)
        self._sync_new_names()

    def forget(self, file: SegmentFile) -> None:
        """Close a file that is removed."""
        self._descriptors.forget(file)

    def close(self) -> None:
        self._descriptors.close()
        os.close(self._root_descriptor)

    def _write(self, write: Write) -> int:
        file, position, parts = write
        descriptor = self._open(file)
        if file.cut_to is not None:
            os.ftruncate(descriptor, file.cut_to)
            file.cut_to = None
        write_all(descriptor, parts, position)
        return descriptor

    def _open(self, file: SegmentFile) -> int:
        try:
            descriptor = self._descriptors.get(file)
        except FileNotFoundError:
            file.path.parent.mkdir()
            self._new_names.add(self._root)
            descriptor = self._descriptors.get(file)
        if not file.exists:
            self._new_names.add(file.path.parent)
            file.exists = True
            os.ftruncate(descriptor, 0)  # should one of that name have been left behind
        return descriptor

    def _sync_all(self) -> None:
        assert _syncfs is not None
        if _syncfs(self._root_descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(self._root))
        self._new_names.clear()

    def _sync_new_names(self) -> None:
        for directory in sorted(self._new_names):  # the root first, as it holds the others
            if directory.exists():  # a topic may have been deleted since
                sync_directory(directory)
        self._new_names.clear()


class SyncChoice:
    """Whether to sync the dirty files one by one or the whole file system, by what each took lately.

    syncfs costs about as much as a few fdatasync when Kohort is alone, and any amount when others write.
    """

    __slots__ = ("_all", "_can_sync_all", "_each")

    def __init__(self, *, can_sync_all: bool, each: float = 0.0002, all_: float = 0.0008) -> None:
        self._can_sync_all = can_sync_all
        self._each = each
        self._all = all_

    def sync_all(self, files: int) -> bool:
        """Whether syncing everything is cheaper for that many files."""
        if not self._can_sync_all or files == 1:
            return False
        if files * self._each > self._all:
            return True
        self._all *= 0.99  # so that a slow moment is not remembered for ever
        return False

    def learn_all(self, seconds: float) -> None:
        self._all += 0.2 * (seconds - self._all)

    def learn_each(self, seconds: float, files: int) -> None:
        self._each += 0.2 * (seconds / files - self._each)


def write_all(descriptor: int, parts: Sequence[Buffer], position: int) -> None:
    """Write the parts one behind the other from `position` on, however often the kernel takes only some."""
    at = 0
    while at < len(parts):
        written = os.pwritev(descriptor, parts[at : at + _MAX_PARTS], position)
        position += written
        while at < len(parts) and written >= len(parts[at]):
            written -= len(parts[at])
            at += 1
        if written:
            parts = [memoryview(parts[at])[written:], *parts[at + 1 :]]
            at = 0


def _find_syncfs() -> Callable[[int], int] | None:
    major, minor = (int(number) for number in os.uname().release.split(".")[:2])
    if (major, minor) < (5, 8):
        return None  # before, it reported no write errors
    try:
        syncfs: Callable[[int], int] = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None
    return syncfs


_syncfs = _find_syncfs()
