"""A partition as read by a broker that does not lead it: from the leader's files, up to its high watermark.

Meanwhile, the leader appends to, compacts and removes segments. An open file keeps its content even
if its name is removed; a file that was replaced is opened again.
"""

import os
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from kohort.log.api import OffsetOutOfRange
from kohort.log.cluster.image import PartitionId
from kohort.log.cluster.published_offsets import PublishedOffsets, PublishedOffsetsReader
from kohort.log.names import base_offset_of, segment_path
from kohort.log.segment import Segment
from kohort.wire.batches import HEADER_SIZE, Buffer, read_header

_WINDOW = 64 << 10
_WINDOWS_AT_ONCE = 256
"""Maximum number of windows that one read searches for batches, so that a large segment does not block the broker."""
_MOST_FILES = 4
"""Maximum number of open files per partition."""


class _ReadOnlyMedium:
    """A file of the leader, opened for reading."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def identity(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_dev, status.st_ino

    def read(self, position: int, size: int) -> Buffer:
        data = self.look(position, size)
        if len(data) != size:
            raise OSError(f"a segment is {size - len(data)} bytes shorter than it was")
        return data

    def look(self, position: int, size: int) -> bytes:
        """Return these bytes, as far as they exist."""
        return os.pread(self._descriptor, size, position)

    def slice(self, position: int, size: int) -> Buffer:
        return self.read(position, size)

    def settle(self, parts: Sequence[Buffer]) -> None:
        raise AssertionError("only the leader writes")

    def create(self) -> None:
        raise AssertionError("only the leader writes")

    def truncate(self, size: int) -> None:
        raise AssertionError("only the leader writes")

    def remove(self) -> None:
        raise AssertionError("only the leader removes segments")

    def close(self) -> None:
        os.close(self._descriptor)


class FollowerLog:
    """The part of `PartitionLog` that a fetch needs.

    Call `refresh` first; it returns False if the leader does not publish the partition's offsets.
    """

    def __init__(self, partition_id: PartitionId, directory: Path, leader_epoch: int) -> None:
        """Open the log. Raises OSError if the leader has not published any offsets yet."""
        self._partition_id = partition_id
        self._directory = directory
        self.leader_epoch = leader_epoch
        self.start_offset = 0
        self.stable_offset = 0
        self.has_transactions = False
        """Whether the log has an open or an aborted transaction. Then it must not be read with read_committed."""
        self.is_behind = False
        """Whether the last read ended early because it would have searched too much."""
        self._segments: dict[int, tuple[Segment, _ReadOnlyMedium]] = {}
        """Segments by base offset, the most recently used last."""
        self._marks = PublishedOffsetsReader(directory)

    def refresh(self) -> bool:
        """Read the leader's current high watermark. Raises OSError."""
        mark = self._marks.read() or self._marks.read()
        if mark is None or (mark.topic_id, mark.leader_epoch) != (self._partition_id.topic_id, self.leader_epoch):
            return False
        self._take(mark)
        return True

    def _take(self, mark: PublishedOffsets) -> None:
        self.start_offset = mark.start_offset
        self.stable_offset = mark.stable_offset
        self.has_transactions = mark.has_transactions

    def send(self, offset: int, max_bytes: int) -> Sequence[Buffer]:
        """Return complete batches from the one that contains `offset`: at least one, then up to `max_bytes`.

        All are from one segment. Raises OffsetOutOfRange, CorruptBatch, OSError.
        """
        if not self.start_offset <= offset <= self.stable_offset:
            raise OffsetOutOfRange(f"offsets {self.start_offset} to {self.stable_offset} can be read, not {offset}")
        self.is_behind = False
        if offset == self.stable_offset:
            return []
        try:
            return self._find(offset, max_bytes)
        except FileNotFoundError:  # the leader has just replaced or removed the file
            self.is_behind = True
            return []

    def _find(self, offset: int, max_bytes: int) -> list[Buffer]:
        names = [path.name for path in self._directory.iterdir()]
        bases = sorted(base for name in names if (base := base_offset_of(name)) is not None)
        at = bisect_right(bases, offset) - 1
        if at < 0:
            raise OffsetOutOfRange(f"offset {offset} was removed")
        for number, base in enumerate(bases[at:], at):
            segment, medium = self._segment(base)
            if not self._look_through(segment, medium):
                return []
            position = segment.locate(offset)
            if position is not None:
                end, _ = segment.cut(position, position + max_bytes)
                return [segment.read(position, end)]
            if number + 1 < len(bases) and bases[number + 1] >= self.stable_offset:
                break
        return []

    def _segment(self, base_offset: int) -> tuple[Segment, _ReadOnlyMedium]:
        path = segment_path(self._directory, base_offset)
        status = path.stat()
        found = self._segments.pop(base_offset, None)
        if found is not None and found[1].identity != (status.st_dev, status.st_ino):
            found[1].close()  # compaction has replaced the file
            found = None
        if found is None:
            medium = _ReadOnlyMedium(path)
            found = Segment(base_offset, medium), medium
        self._segments[base_offset] = found
        while len(self._segments) > _MOST_FILES:
            self._segments.pop(next(iter(self._segments)))[1].close()
        return found

    def _look_through(self, segment: Segment, medium: _ReadOnlyMedium) -> bool:
        """Add the batches that became readable; return False if there are too many for one call."""
        for _ in range(_WINDOWS_AT_ONCE):
            window = medium.look(segment.size, _WINDOW)
            if not self._note(segment, window):
                return True
        self.is_behind = True
        return False

    def _note(self, segment: Segment, window: bytes) -> bool:
        """Add the window's batches; return whether more may follow."""
        at = 0
        while at + HEADER_SIZE <= len(window):
            header = read_header(window, at)
            if header.size < HEADER_SIZE or header.next_offset > self.stable_offset:
                return False
            segment.note(header)
            segment.doubtful_to = segment.size  # this process has not verified its checksum
            at += header.size
        return at > 0

    def close(self) -> None:
        """Close all files."""
        self._marks.close()
        for _, medium in self._segments.values():
            medium.close()
        self._segments.clear()
