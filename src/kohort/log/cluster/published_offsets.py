"""Readable offsets of each partition, which its leader publishes to the other brokers of the host.

The file `high-watermark` in a partition's directory contains the topic ID, the leader epoch, the
start offset, the high watermark, whether there are transactions, and a checksum. It is not synced,
because it makes no statement about data after a crash: the leader epoch changes then.
"""

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from kohort.model import UUID

NAME = "high-watermark"

_FIELDS = struct.Struct(">16siqq?")
_SUM = struct.Struct(">I")
_SIZE = _FIELDS.size + _SUM.size


@dataclass(frozen=True, slots=True)
class PublishedOffsets:
    """State of a partition that its leader publishes."""

    topic_id: UUID
    leader_epoch: int
    start_offset: int
    stable_offset: int
    has_transactions: bool = False
    """Whether the log has an open or an aborted transaction. Then only the leader serves read_committed."""


class PublishedOffsetsWriter:
    """Writes the file, in the leader."""

    def __init__(self, directory: Path) -> None:
        """Open the file. Raises OSError."""
        directory.mkdir(exist_ok=True)  # the directory may not exist before the first append
        self._descriptor = os.open(directory / NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._last: PublishedOffsets | None = None

    def write(self, mark: PublishedOffsets) -> None:
        """Publish the offsets if they changed. Raises OSError."""
        if mark != self._last:
            offsets = mark.start_offset, mark.stable_offset
            body = _FIELDS.pack(mark.topic_id.bytes, mark.leader_epoch, *offsets, mark.has_transactions)
            os.pwrite(self._descriptor, body + _SUM.pack(crc32(body)), 0)
            self._last = mark

    def close(self) -> None:
        os.close(self._descriptor)


class PublishedOffsetsReader:
    """Reads the file, in other brokers."""

    def __init__(self, directory: Path) -> None:
        """Open the file. Raises OSError: FileNotFoundError if no leader has published anything."""
        self._descriptor = os.open(directory / NAME, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> PublishedOffsets | None:
        """Return the published offsets; None if they are just being written or damaged."""
        data = os.pread(self._descriptor, _SIZE, 0)
        if len(data) < _SIZE or _SUM.unpack_from(data, _FIELDS.size)[0] != crc32(data[: _FIELDS.size]):
            return None
        topic_id, epoch, start, stable, has_transactions = _FIELDS.unpack_from(data)
        return PublishedOffsets(UUID(bytes=topic_id), epoch, start, stable, has_transactions)

    def close(self) -> None:
        os.close(self._descriptor)
