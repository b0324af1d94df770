"""Segments as files: read on the event loop, written in the writer thread, which later cleans up."""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kohort.log.descriptors import Descriptors, FileSlice, SegmentFile
from kohort.log.disk import Disk
from kohort.log.names import DELETED, sidecar_path
from kohort.wire.batches import Buffer

_SENT_FROM = 32 * 1024
"""Minimum size in bytes from which sendfile is cheaper than a read and a write."""

log = logging.getLogger("kohort.log")


class FileMedium:
    """One segment as a file."""

    __slots__ = ("_files", "file")

    def __init__(self, files: "SegmentFiles", path: Path, *, exists: bool) -> None:
        self._files = files
        self.file = SegmentFile(path, exists=exists)

    def read(self, position: int, size: int) -> Buffer:
        data = os.pread(self._files.readers.get(self.file), size, position)
        if len(data) != size:
            raise OSError(f"{self.file.path} is {size - len(data)} bytes shorter: another program changed it")
        return data

    def slice(self, position: int, size: int) -> Buffer | FileSlice:
        held = self._files.readers.hold(self.file) if size >= _SENT_FROM else None
        return self.read(position, size) if held is None else FileSlice(held, position, size)

    def settle(self, parts: Sequence[Buffer]) -> None:
        """Do nothing: the writer thread has written them."""

    def create(self) -> None:
        self._files.cleanup_tasks.append(partial(self._files.create, self.file))

    def truncate(self, size: int) -> None:
        self.file.cut_to = size
        if not self.file.exists:
            return
        sidecar_path(self.file.path).unlink(missing_ok=True)
        try:
            os.truncate(self.file.path, size)
        except OSError as error:  # the writer thread does it before its next write
            log.warning("cannot cut %s to %d bytes: %s", self.file.path, size, error)

    def remove(self) -> None:
        """Rename the file at once, because its name may be reused; the writer thread frees its bytes."""
        path = self.file.path
        gone = path.with_name(path.name + DELETED)
        self._files.forget(self.file)
        if self.file.exists:
            sidecar_path(path).unlink(missing_ok=True)  # first, so that it is not used for a later file of that name
            path.replace(gone)
            self._files.cleanup_tasks.append(partial(_unlink, gone))


class SegmentFiles:
    """State that all segments of a store share: open files of both threads, and the writer thread's clean-up tasks."""

    def __init__(self, root: Path, max_open: int, *, durable: bool = True) -> None:
        self.readers = Descriptors(max_open, os.O_RDONLY)
        self.disk = Disk(root, max_open, durable=durable)
        self.writing = threading.Lock()
        """Held while `disk` is used."""
        self.cleanup_tasks: deque[Callable[[], None]] = deque()
        """Clean-up tasks that the writer thread runs after its next sync, in this order."""
        self._root = root

    def create(self, file: SegmentFile) -> None:
        """Create an empty segment's file (as a chore)."""
        with self.writing:
            self.disk.create(file)

    def forget(self, file: SegmentFile) -> None:
        """Close a removed segment's file; a chore closes it for writing."""
        self.readers.forget(file)
        self.cleanup_tasks.append(partial(self._close_for_writing, file))

    def close_file(self, file: SegmentFile) -> None:
        """Close a file at once; the caller holds `writing`."""
        self.readers.forget(file)
        self.disk.forget(file)

    def run_cleanup_tasks(self) -> None:
        """Run the clean-up tasks. An error is only logged, because the write itself succeeded."""
        while self.cleanup_tasks:
            try:
                self.cleanup_tasks.popleft()()
            except OSError as error:
                log.warning("clean-up in %s: %s", self._root, error)

    def close(self) -> None:
        self.readers.close()
        self.disk.close()

    def _close_for_writing(self, file: SegmentFile) -> None:
        with self.writing:
            self.disk.forget(file)


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)
