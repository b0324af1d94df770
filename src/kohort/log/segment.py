"""A sequence of batches in one piece of storage, with an index. It contains settled bytes only."""

import copy
import errno
from collections.abc import Iterator, Sequence
from typing import Protocol

from kohort.log.descriptors import FileSlice
from kohort.log.index import INTERVAL, SparseIndex
from kohort.log.producers import AbortedTransaction, Producer
from kohort.model import Millis
from kohort.wire.batches import HEADER_SIZE, MAGIC, BatchHeader, Buffer, Marker, crc_matches, read_header, read_marker

NO_TIMESTAMP: Millis = -1
_WINDOW = INTERVAL + 4096


class CorruptBatch(OSError):
    """A batch's bytes differ from those that were written; it is not served."""

    def __init__(self, base_offset: int, next_offset: int, position: int, part: str = "checksum") -> None:
        super().__init__(errno.EIO, f"the {part} of the batch at offset {base_offset} is wrong")
        self.base_offset = base_offset
        self.next_offset = next_offset
        """Offset at which to continue reading, if the batch's header is intact."""
        self.position = position
        """Position of the batch in its segment."""


class Medium(Protocol):
    """Storage of one segment's bytes."""

    def read(self, position: int, size: int) -> Buffer:
        """Return exactly these bytes, which are settled."""
        ...

    def slice(self, position: int, size: int) -> Buffer | FileSlice:
        """Return these bytes for sending; as a slice of a file if that is cheaper."""
        ...

    def settle(self, parts: Sequence[Buffer]) -> None:
        """On the event loop: append bytes, which are synced if applicable and may be read from now on."""
        ...

    def create(self) -> None:
        """Create the storage, although it is empty."""
        ...

    def truncate(self, size: int) -> None:
        """Remove the bytes from `size` on, whether settled or not."""
        ...

    def remove(self) -> None:
        """Remove the storage; a new one with the same name may follow."""
        ...


class Segment:
    """Batches from `base_offset` to `end_offset`.

    `size` is the number of settled bytes; `planned` includes queued ones.
    """

    __slots__ = (
        "aborted",
        "base_offset",
        "doubtful_to",
        "end_offset",
        "first_timestamp",
        "has_sidecar",
        "in_sidecar",
        "index",
        "max_timestamp",
        "max_timestamp_at",
        "medium",
        "planned",
        "producers_at_end",
        "size",
        "valid_to",
    )

    def __init__(self, base_offset: int, medium: Medium) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.medium = medium
        self.index = SparseIndex()
        self.size = 0
        self.planned = 0
        self.first_timestamp: Millis = NO_TIMESTAMP
        self.max_timestamp: Millis = NO_TIMESTAMP
        self.max_timestamp_at = 0
        """Position of the batch with `max_timestamp`."""
        self.aborted: list[AbortedTransaction] = []
        """Aborted transactions whose marker is in the segment, in the order of the markers."""
        self.producers_at_end: dict[int, Producer] | None = None
        """Producers of the partition when this segment became full, until they are in its sidecar."""
        self.has_sidecar = False
        """Whether a sidecar file describes the segment in its present state."""
        self.in_sidecar = 0
        """Number of bytes that a sidecar file describes."""
        self.doubtful_to = 0
        """End of the bytes that an earlier process wrote. They are verified when they are first read."""
        self.valid_to = 0
        """End of the verified bytes."""

    def copied(self, medium: Medium) -> "Segment":
        """Return a segment with the same batches in another medium; either may grow without the other."""
        other = copy.copy(self)
        other.medium, other.planned, other.index = medium, self.size, SparseIndex.from_bytes(self.index.to_bytes())
        other.aborted = self.aborted.copy()
        return other

    def note(self, header: BatchHeader) -> None:
        """Add the batch that follows the last one."""
        self.index.note(header.base_offset, self.size, self.max_timestamp)
        if not self.size:
            self.first_timestamp = header.max_timestamp
        if header.max_timestamp > self.max_timestamp and header.record_count:
            self.max_timestamp, self.max_timestamp_at = header.max_timestamp, self.size
        self.size += header.size
        self.end_offset = header.next_offset
        self.has_sidecar = False

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Yield positions and headers from a batch boundary on. Reads in windows, and skips bodies larger than those.

        Raises CorruptBatch if a batch cannot end at the position in its header.
        """
        while position < self.size:
            window = self.medium.read(position, min(_WINDOW, self.size - position))
            at = 0
            while at + HEADER_SIZE <= len(window):
                header = read_header(window, at)
                if not HEADER_SIZE <= header.size <= self.size - position - at:
                    raise self._damaged(position + at, header.base_offset)
                yield position + at, header
                at += header.size
            if not at:  # too few bytes are left: the previous size is wrong
                raise self._damaged(position, self.base_offset)
            position += at

    def marked_headers(self) -> Iterator[tuple[BatchHeader, Marker | None]]:
        """Yield the headers of all batches, and the markers of control batches."""
        for position, header in self.headers():
            yield header, read_marker(self.medium.read(position, header.size)) if header.is_control else None

    def locate(self, offset: int) -> int | None:
        """Return the position of the batch that contains `offset`, or of the first one after it, or None.

        No checksum covers a batch's base offset: one after the segment's end is damage, and is
        skipped. Raises CorruptBatch if there is damage before the batch.
        """
        try:
            for position, header in self.headers(self.index.position_of(offset)):
                if offset <= header.last_offset < self.end_offset:
                    return position
        except CorruptBatch as error:
            raise CorruptBatch(max(offset, error.base_offset), error.next_offset, error.position, "header") from None
        return None

    def cut(self, position: int, limit: int) -> tuple[int, int]:
        """Return the end position of a read from the batch at `position`, and the offset after it.

        The read contains complete batches up to `limit`, and at least one. Raises CorruptBatch if
        that one is damaged.
        """
        if limit < self.size:
            try:
                for at, header in self.headers(max(position, self.index.position_at(limit))):
                    end = at + header.size
                    if end > limit:
                        return (at, header.base_offset) if at > position else (end, header.next_offset)
            except CorruptBatch as error:
                if error.position == position:
                    raise
                return error.position, error.base_offset
        return self.size, self.end_offset

    def read(self, position: int, end: int) -> Buffer:
        """Return these batches; of an earlier process's bytes, only those up to the first checksum error.

        Raises CorruptBatch if the first batch is damaged.
        """
        data = self.medium.read(position, end - position)
        if position >= self.doubtful_to or end <= self.valid_to:
            return data
        sound = _valid_size(data)
        if not sound and data:
            raise CorruptBatch(read_header(data).base_offset, read_header(data).next_offset, position)
        if position <= self.valid_to:
            self.valid_to = max(self.valid_to, position + sound)
            if self.valid_to >= self.doubtful_to:
                self.doubtful_to = 0
        return data if sound == len(data) else memoryview(data)[:sound]

    def send(self, position: int, end: int) -> Buffer | FileSlice:
        """Like `read`, for sending."""
        if position < self.doubtful_to and end > self.valid_to:
            return self.read(position, end)
        return self.medium.slice(position, end - position)

    def drop_from(self, position: int) -> None:
        """Remove the batches from `position` on, and recompute the timestamps from the remaining ones."""
        kept = [header for at, header in self.headers() if at < position]
        self.index = SparseIndex()
        self.size = 0
        self.end_offset = self.base_offset
        self.first_timestamp = self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_at = 0
        self.producers_at_end = None
        self.has_sidecar = False
        self.in_sidecar = 0
        for header in kept:
            self.note(header)
        self.aborted = [each for each in self.aborted if each.last_offset < self.end_offset]
        self.planned = self.size

    def _damaged(self, position: int, offset: int) -> CorruptBatch:
        """Return the error for damage at `position`.

        The start of the next batch is unknown, so reading can continue at the next batch in the
        index.
        """
        behind = self.index.offset_behind(position)
        return CorruptBatch(
            offset if self.base_offset <= offset < self.end_offset else self.base_offset,
            self.end_offset if behind is None else behind,
            position,
            "header",
        )


def _valid_size(data: Buffer) -> int:
    """Return the number of bytes before the first batch that is incomplete, damaged or not a batch."""
    at = 0
    while len(data) - at >= HEADER_SIZE:
        header = read_header(data, at)
        # The checksum covers neither the size nor the magic byte.
        if header.magic != MAGIC or not HEADER_SIZE <= header.size <= len(data) - at:
            break
        if not crc_matches(data, header, at):
            break
        at += header.size
    return at
