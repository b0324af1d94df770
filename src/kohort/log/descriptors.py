"""Open files, a bounded number of them: ten thousand partitions must not need ten thousand descriptors."""

import errno
import os
from collections import OrderedDict
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


class Descriptors:
    """The files used last stay open. Belongs to one thread: what it hands out is good until the next `get`."""

    __slots__ = ("_capacity", "_flags", "_open")

    def __init__(self, capacity: int, flags: int) -> None:
        assert capacity >= 1
        self._capacity = capacity
        self._flags = flags | os.O_CLOEXEC
        self._open: OrderedDict[SegmentFile, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def capacity(self) -> int:
        return self._capacity

    def get(self, file: SegmentFile, flags: int = 0) -> int:
        """The file's descriptor, opened now if need be, with these flags too."""
        descriptor = self._open.get(file)
        if descriptor is not None:
            self._open.move_to_end(file)
            return descriptor
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
                self._open[file] = descriptor
                return descriptor

    def forget(self, file: SegmentFile) -> None:
        """Close that file, which is removed."""
        descriptor = self._open.pop(file, None)
        if descriptor is not None:
            os.close(descriptor)

    def _close_oldest(self) -> None:
        os.close(self._open.popitem(last=False)[1])

    def close(self) -> None:
        """Close all."""
        while self._open:
            os.close(self._open.popitem()[1])
