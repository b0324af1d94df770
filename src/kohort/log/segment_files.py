"""Segments as files: read on the event loop, written by the writer thread, cleaned up when that has time."""

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
from kohort.wire.compression import Buffer

_SENT_FROM = 32 * 1024
"""Bytes from which sendfile is cheaper than to read and write them."""

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
            raise OSError(f"{self.file.path} is {size - len(data)} bytes shorter than it was; who changed it?")
        return data

    def slice(self, position: int, size: int) -> Buffer | FileSlice:
        held = self._files.readers.hold(self.file) if size >= _SENT_FROM else None
        return self.read(position, size) if held is None else FileSlice(held, position, size)

    def settle(self, parts: Sequence[Buffer]) -> None:
        """The writer has written them."""

    def create(self) -> None:
        self._files.chores.append(partial(self._files.create, self.file))

    def truncate(self, size: int) -> None:
        self.file.cut_to = size
        if not self.file.exists:
            return
        sidecar_path(self.file.path).unlink(missing_ok=True)
        try:
            os.truncate(self.file.path, size)
        except OSError as error:  # the writer does it before its next write
            log.warning("cannot cut %s to %d bytes: %s", self.file.path, size, error)

    def remove(self) -> None:
        """Out of the way at once, for its name may be needed; its bytes are freed by the writer."""
        path = self.file.path
        gone = path.with_name(path.name + DELETED)
        self._files.forget(self.file)
        if self.file.exists:
            sidecar_path(path).unlink(missing_ok=True)  # first: it must not be taken for a successor's
            path.replace(gone)
            self._files.chores.append(partial(_unlink, gone))


class SegmentFiles:
    """What all segments of a store share: open files for either thread, and the chores of the writer."""

    def __init__(self, root: Path, max_open: int, *, durable: bool = True) -> None:
        self.readers = Descriptors(max_open, os.O_RDONLY)
        self.disk = Disk(root, max_open, durable=durable)
        self.writing = threading.Lock()
        """Held by whoever uses `disk`."""
        self.chores: deque[Callable[[], None]] = deque()
        """What the writer does after its next sync, in this order."""
        self._root = root

    def create(self, file: SegmentFile) -> None:
        """A chore: make an empty segment's file."""
        with self.writing:
            self.disk.create(file)

    def forget(self, file: SegmentFile) -> None:
        """Close a removed segment's file, for writing in the writer's own time."""
        self.readers.forget(file)
        self.chores.append(partial(self._close_for_writing, file))

    def close_file(self, file: SegmentFile) -> None:
        """Close a file at once; the caller holds `writing`."""
        self.readers.forget(file)
        self.disk.forget(file)

    def do_chores(self) -> None:
        """Nothing of this is owed to anybody, so an error is no reason to fail what was written."""
        while self.chores:
            try:
                self.chores.popleft()()
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
