"""Writes of the file store's writer thread: gathers writes, then syncs them in the cheapest way."""

import errno
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kohort.log.api import SyncFailed
from kohort.log.descriptors import Descriptors, SegmentFile
from kohort.log.directory import sync_directory
from kohort.log.sync_choice import SyncChoice, syncfs_of
from kohort.wire.batches import Buffer

log = logging.getLogger("kohort.log")

_MAX_PARTS = 1024
"""IOV_MAX of Linux."""


Write = tuple[SegmentFile, int, list[Buffer]]
"""A file, a position in it, and the bytes to write."""


class FilesNotSynced(SyncFailed):
    """The disk did not confirm writes to these files."""

    def __init__(self, error: OSError, files: Sequence[SegmentFile]) -> None:
        super().__init__(error.errno, error.strerror)
        self.files = frozenset(files)


@contextmanager
def _confirming(files: Sequence[SegmentFile]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FilesNotSynced(error, files) from error


class Disk:
    """Writes and syncs files. Only one thread may use it at a time."""

    def __init__(self, root: Path, max_open: int, *, durable: bool = True) -> None:
        """Open the directory. If not `durable`, writes need not survive a crash, and nothing is synced."""
        self._durable = durable
        self._root = root
        self._descriptors = Descriptors(max_open, os.O_RDWR)
        self._root_descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        self._syncfs = syncfs_of(root)
        self.choice = SyncChoice(can_sync_together=self._syncfs is not None)
        self._new_names: set[Path] = set()
        """Directories that contain new names that are not durable yet."""

    def write(self, writes: Sequence[Write]) -> None:
        """Write; everything is durable when this returns. After an OSError, any part may be on disk.

        FilesNotSynced lists the files that the disk did not confirm. After any other error, the
        files can be truncated to their former sizes.
        """
        if not writes:
            return
        cost = len(writes) + 2 * sum(not file.exists for file, _, _ in writes)
        for file, position, parts in writes:
            self._write(file, position, parts)
        if not self._durable:
            self._new_names.clear()
            return
        files = [file for file, _, _ in writes]
        if not (self.choice.prefers_syncfs(cost) and self._sync_together()):
            self._sync_each(files, cost)

    def create(self, file: SegmentFile) -> None:
        """Create an empty file, durably."""
        self._open(file)
        if self._durable:
            self._sync_new_names()

    def forget(self, file: SegmentFile) -> None:
        """Close a file that is being removed."""
        self._descriptors.forget(file)

    def close(self) -> None:
        self._descriptors.close()
        os.close(self._root_descriptor)

    def _sync_together(self) -> bool:
        """Sync the whole file system; return whether that succeeded.

        An error may concern another program's file, so the caller then syncs each file
        individually.
        """
        started = time.perf_counter()
        try:
            self._sync_file_system()
        except OSError as error:
            log.warning("the file system of %s was not synced as a whole: %s", self._root, error)
            return False
        self.choice.syncfs_took(time.perf_counter() - started)
        return True

    def _sync_each(self, files: Sequence[SegmentFile], cost: int) -> None:
        started = time.perf_counter()
        for file in files:
            # The file may have been reopened since the write: a sync applies to a file, not to a descriptor.
            descriptor = self._descriptors.get(file)
            with _confirming([file]):
                os.fdatasync(descriptor)
        with _confirming(files):
            self._sync_new_names()
        self.choice.fdatasyncs_took(time.perf_counter() - started, cost)

    def _write(self, file: SegmentFile, position: int, parts: Sequence[Buffer]) -> None:
        descriptor = self._open(file)
        if file.cut_to is not None:
            os.ftruncate(descriptor, file.cut_to)
            file.cut_to = None
        try:
            write_all(descriptor, parts, position)
        except OSError as error:
            if error.errno == errno.EIO:  # the disk is failing, not full
                raise FilesNotSynced(error, [file]) from error
            raise

    def _open(self, file: SegmentFile) -> int:
        if file.exists:
            return self._descriptors.get(file)
        directory = file.path.parent
        directory.mkdir(exist_ok=True)
        # If an old file of that name exists, O_TRUNC ensures that none of its content is visible.
        descriptor = self._descriptors.get(file, os.O_CREAT | os.O_TRUNC)
        # The directory's own name may not be durable yet, if the process that made the directory was killed.
        self._new_names.update((self._root, directory))
        file.exists = True
        return descriptor

    def _sync_file_system(self) -> None:
        assert self._syncfs is not None
        self._syncfs(self._root_descriptor)
        self._new_names.clear()

    def _sync_new_names(self) -> None:
        for directory in sorted(self._new_names):  # the root first, because it contains the others
            if directory.exists():  # its topic may have been deleted since
                sync_directory(directory)
        self._new_names.clear()


def write_all(descriptor: int, parts: Sequence[Buffer], position: int) -> None:
    """Write the parts one after the other from `position`; repeats if the kernel writes only some of them."""
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
