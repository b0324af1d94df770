"""A bounded cache of open files: ten thousand partitions must not need ten thousand file descriptors."""

import errno
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path


class SegmentFile:
    """File of one segment.

    A later file at the same path is another object, so that no write reaches a removed file's
    successor.
    """

    __slots__ = ("cut_to", "exists", "path")

    def __init__(self, path: Path, *, exists: bool) -> None:
        self.path = path
        self.exists = exists
        """Whether its name is in its directory (perhaps not durably yet)."""
        self.cut_to: int | None = None
        """Position from which bytes are left over from a failed append; the next write first truncates them."""


class OpenFile:
    """A file descriptor that stays open while this object is referenced."""

    __slots__ = ("_closed", "descriptor")

    def __init__(self, descriptor: int, closed: Callable[[], None]) -> None:
        self.descriptor = descriptor
        self._closed = closed

    def __del__(self) -> None:
        os.close(self.descriptor)
        self._closed()


class FileSlice:
    """Bytes of a file that can be sent without a copy through memory (`os.sendfile`)."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: OpenFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        """Return the bytes, for callers that cannot use sendfile; fewer at the end of the file."""
        return os.pread(self.file.descriptor, self.size, self.position)


class Descriptors:
    """Keeps recently used files open.

    Only one thread may use it. The result of `get` is valid until the next call.
    """

    __slots__ = ("_alive", "_capacity", "_flags", "_open")

    def __init__(self, capacity: int, flags: int) -> None:
        assert capacity >= 1
        self._capacity = capacity
        self._flags = flags | os.O_CLOEXEC
        self._open: OrderedDict[SegmentFile, OpenFile] = OrderedDict()
        self._alive = 0
        """Number of open files, including those that are referenced elsewhere."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def capacity(self) -> int:
        return self._capacity

    def get(self, file: SegmentFile, flags: int = 0) -> int:
        """Return the file's descriptor; opens the file with additional `flags` if necessary."""
        return self._get(file, flags).descriptor

    def hold(self, file: SegmentFile) -> OpenFile | None:
        """Return the file, which stays open while it is referenced; None if too many files are open already."""
        return self._get(file) if self._alive < 2 * self._capacity else None

    def _get(self, file: SegmentFile, flags: int = 0) -> OpenFile:
        found = self._open.get(file)
        if found is not None:
            self._open.move_to_end(file)
            return found
        if len(self._open) >= self._capacity:
            self._close_oldest()
        while True:
            try:
                descriptor = os.open(file.path, self._flags | flags, 0o644)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._open:
                    raise
                self._close_oldest()  # connections have used up all other descriptors
            else:
                self._alive += 1
                found = self._open[file] = OpenFile(descriptor, self._was_closed)
                return found

    def forget(self, file: SegmentFile) -> None:
        """Close a file that is being removed; existing references can still read it."""
        self._open.pop(file, None)

    def _close_oldest(self) -> None:
        self._open.popitem(last=False)

    def _was_closed(self) -> None:
        self._alive -= 1

    def close(self) -> None:
        """Close all files that are not referenced elsewhere."""
        self._open.clear()
