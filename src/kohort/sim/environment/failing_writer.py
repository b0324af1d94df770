"""Failures of writes to files: errors, a full disk, and partial writes at a crash."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Protocol

from kohort.log import MAX_OPEN_FILES, FilesNotSynced, Write
from kohort.log import Disk as FileWriter

_LIKELY_DAMAGED = 0.3
"""Probability that data of an interrupted write is corrupted."""


class PowerLostError(OSError):
    """Simulated power failure: data after this byte is not written."""


class FailingDisk(Protocol):
    """Disk whose state decides which writes fail."""

    @property
    def path(self) -> Path:
        """Directory of the files."""
        ...

    @property
    def failure(self) -> int | None:
        """Error number with which writes fail; None if they succeed."""
        ...


class FailingWriter(FileWriter):
    """Production's file writer with simulated failures."""

    def __init__(self, disk: FailingDisk, rng: Random) -> None:
        super().__init__(disk.path, MAX_OPEN_FILES)
        self.dies = False
        """Whether the next write is the last one, and is incomplete."""
        self._disk = disk
        self._rng = rng

    def write(self, writes: Sequence[Write]) -> None:
        failure = self._disk.failure
        if self.dies:
            self._write_some(writes)
            raise PowerLostError
        if failure == errno.ENOSPC:
            self._write_some(writes)
            raise OSError(failure, "the simulated disk is full")
        super().write(writes)
        if failure is not None:
            raise FilesNotSynced(OSError(failure, "the simulated disk fails"), [file for file, _, _ in writes])

    def _write_some(self, writes: Sequence[Write]) -> None:
        """Write some parts whole and one partially; a partial write may be corrupted."""
        rng = self._rng
        whole = rng.randrange(len(writes) + 1)
        super().write(writes[:whole])
        for file, position, parts in writes[whole : whole + 1]:
            data = b"".join(bytes(part) for part in parts)
            size = rng.randrange(len(data))
            super().write([(file, position, [data[:size]])])
            if size and rng.random() < _LIKELY_DAMAGED:
                change_a_bit(file.path, position + rng.randrange(size), rng)


def change_a_bit(path: Path, position: int, rng: Random) -> None:
    """Flip one of the bits of that byte."""
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1 << rng.randrange(8)]))
