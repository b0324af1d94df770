"""Open files, a bounded number of them: ten thousand partitions must not need ten thousand descriptors."""

import errno
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path


class SegmentFile:
    """One segment's file. A successor of the same path is another object, so nobody writes to what was removed."""

    __slots__ = ("cut_to", "exists", "path")

    def __init__(self, path: Path, *, exists: bool) -> None:
        self.path = path
        self.exists = exists
        """Whether its name is in its directory (perhaps not durably yet)."""
        self.cut_to: int | None = None
        """Bytes from here on are left from an append that failed; they go before the next write."""


class OpenFile:
    """A descriptor that is open for as long as somebody holds this."""

    __slots__ = ("_closed", "descriptor")

    def __init__(self, descriptor: int, closed: Callable[[], None]) -> None:
        self.descriptor = descriptor
        self._closed = closed

    def __del__(self) -> None:
        os.close(self.descriptor)
        self._closed()


class FileSlice:
    """Bytes of a file that need not pass through memory on their way to a peer: what `os.sendfile` takes."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: OpenFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        """The bytes, for whom sendfile does not serve; fewer where the file ends."""
        return os.pread(self.file.descriptor, self.size, self.position)


class Descriptors:
    """The files used last stay open. Belongs to one thread: what `get` returns is good until the next call."""

    __slots__ = ("_alive", "_capacity", "_flags", "_open")

    def __init__(self, capacity: int, flags: int) -> None:
        assert capacity >= 1
        self._capacity = capacity
        self._flags = flags | os.O_CLOEXEC
        self._open: OrderedDict[SegmentFile, OpenFile] = OrderedDict()
        self._alive = 0
        """Open files, those that are held elsewhere included."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def capacity(self) -> int:
        return self._capacity

    def get(self, file: SegmentFile, flags: int = 0) -> int:
        """The file's descriptor, opened now if need be, with these flags too."""
        return self._get(file, flags).descriptor

    def hold(self, file: SegmentFile) -> OpenFile | None:
        """The file, open for as long as it is held; None where too many are held already."""
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
                self._close_oldest()  # connections have taken all others
            else:
                self._alive += 1
                found = self._open[file] = OpenFile(descriptor, self._was_closed)
                return found

    def forget(self, file: SegmentFile) -> None:
        """Close that file, which is removed; whoever holds it reads on."""
        self._open.pop(file, None)

    def _close_oldest(self) -> None:
        self._open.popitem(last=False)

    def _was_closed(self) -> None:
        self._alive -= 1

    def close(self) -> None:
        """Close all that nobody holds."""
        self._open.clear()
