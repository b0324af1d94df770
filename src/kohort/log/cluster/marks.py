"""How far each partition can be read, told by its leader to the other brokers of the host.

`high-watermark` in a partition's directory: the topic's id, the leader epoch, the start offset, the high watermark, and
a checksum. It is not synced: it says nothing about what survives a crash, and after one there is another leader epoch.
"""

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from kohort.model import UUID

NAME = "high-watermark"

_FIELDS = struct.Struct(">16siqq")
_SUM = struct.Struct(">I")
_SIZE = _FIELDS.size + _SUM.size


@dataclass(frozen=True, slots=True)
class Mark:
    """What a leader says of its partition."""

    topic_id: UUID
    leader_epoch: int
    start_offset: int
    stable_offset: int


class MarkWriter:
    """The leader's half."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError."""
        directory.mkdir(exist_ok=True)  # nothing was written there yet
        self._descriptor = os.open(directory / NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._last: Mark | None = None

    def write(self, mark: Mark) -> None:
        """Tell the others, if it is news. Raises OSError."""
        if mark != self._last:
            body = _FIELDS.pack(mark.topic_id.bytes, mark.leader_epoch, mark.start_offset, mark.stable_offset)
            os.pwrite(self._descriptor, body + _SUM.pack(crc32(body)), 0)
            self._last = mark

    def close(self) -> None:
        os.close(self._descriptor)


class MarkReader:
    """The followers' half."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError: FileNotFoundError where no leader has told anything."""
        self._descriptor = os.open(directory / NAME, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> Mark | None:
        """What the leader said last; None while it is being written, or was damaged."""
        data = os.pread(self._descriptor, _SIZE, 0)
        if len(data) < _SIZE or _SUM.unpack_from(data, _FIELDS.size)[0] != crc32(data[: _FIELDS.size]):
            return None
        topic_id, epoch, start, stable = _FIELDS.unpack_from(data)
        return Mark(UUID(bytes=topic_id), epoch, start, stable)

    def close(self) -> None:
        os.close(self._descriptor)
