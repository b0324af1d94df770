"""A run of batches in one piece of storage, with an index over it. Only settled bytes are seen here."""

import errno
from collections.abc import Iterator, Sequence
from typing import Protocol

from kohort.log.descriptors import FileSlice
from kohort.log.index import INTERVAL, SparseIndex
from kohort.log.producers import Producer
from kohort.model import Millis
from kohort.wire.batch import HEADER_SIZE, MAGIC, BatchHeader, crc_matches, read_header
from kohort.wire.compression import Buffer

NO_TIMESTAMP: Millis = -1
_WINDOW = INTERVAL + 4096


class CorruptBatch(OSError):
    """The bytes of a batch are not those that were written; it is not served."""

    def __init__(self, base_offset: int, next_offset: int, position: int, part: str = "checksum") -> None:
        super().__init__(errno.EIO, f"the {part} of the batch at offset {base_offset} is wrong")
        self.base_offset = base_offset
        self.next_offset = next_offset
        """Where to read on, as far as its header can be believed."""
        self.position = position
        """Of the batch in its segment."""


class Medium(Protocol):
    """Where a segment's bytes lie."""

    def read(self, position: int, size: int) -> Buffer:
        """Exactly those bytes, which are settled."""
        ...

    def slice(self, position: int, size: int) -> Buffer | FileSlice:
        """The same bytes for a peer, as a place in a file where that serves it better."""
        ...

    def settle(self, parts: Sequence[Buffer]) -> None:
        """On the event loop: these bytes follow the last ones, are synced where that applies, and may be read."""
        ...

    def create(self) -> None:
        """Exist, although nothing is in it."""
        ...

    def truncate(self, size: int) -> None:
        """Drop the bytes from `size` on, whether settled or not."""
        ...

    def remove(self) -> None:
        """The segment is gone; another of its name may come."""
        ...


class Segment:
    """Batches from `base_offset` to `end_offset`, `size` bytes of them settled and `planned` with those queued."""

    __slots__ = (
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
        "sound_to",
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
        self.producers_at_end: dict[int, Producer] | None = None
        """The partition's producers when this segment was full, until they lie in its sidecar."""
        self.has_sidecar = False
        """Whether a sidecar file describes it as it is now."""
        self.in_sidecar = 0
        """How much of it a sidecar file describes."""
        self.doubtful_to = 0
        """Up to here it was found on disk, so that a reader's first look checks it; this process wrote what follows."""
        self.sound_to = 0
        """Up to here that has been done."""

    def note(self, header: BatchHeader) -> None:
        """Take in the batch that follows the last one."""
        self.index.note(header.base_offset, self.size, self.max_timestamp)
        if not self.size:
            self.first_timestamp = header.max_timestamp
        if header.max_timestamp > self.max_timestamp and header.record_count:
            self.max_timestamp, self.max_timestamp_at = header.max_timestamp, self.size
        self.size += header.size
        self.end_offset = header.next_offset
        self.has_sidecar = False

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Positions and headers from a batch boundary on. Reads windows; bodies larger than those are skipped over.

        Raises CorruptBatch where a batch cannot end where its header says.
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
            if not at:  # what is left is too short: the size before it is wrong
                raise self._damaged(position, self.base_offset)
            position += at

    def locate(self, offset: int) -> int | None:
        """Position of the batch that holds `offset`, or of the first one behind it; None where there is none.

        No checksum covers a batch's base offset: one that is past the segment's end is damage, and passed over.
        Raises CorruptBatch where damage lies before it.
        """
        try:
            for position, header in self.headers(self.index.position_of(offset)):
                if offset <= header.last_offset < self.end_offset:
                    return position
        except CorruptBatch as error:
            raise CorruptBatch(max(offset, error.base_offset), error.next_offset, error.position, "header") from None
        return None

    def cut(self, position: int, limit: int) -> tuple[int, int]:
        """Where to end a read from the batch at `position` so that it holds whole batches up to `limit`, at least
        one; and the offset behind it. Raises CorruptBatch where that one is damaged.
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
        """Those whole batches; of bytes that an earlier process wrote only as many as have the right checksums.

        Raises CorruptBatch where that is none.
        """
        data = self.medium.read(position, end - position)
        if position >= self.doubtful_to or end <= self.sound_to:
            return data
        sound = _sound_size(data)
        if not sound and data:
            raise CorruptBatch(read_header(data).base_offset, read_header(data).next_offset, position)
        if position <= self.sound_to:
            self.sound_to = max(self.sound_to, position + sound)
            if self.sound_to >= self.doubtful_to:
                self.doubtful_to = 0
        return data if sound == len(data) else memoryview(data)[:sound]

    def send(self, position: int, end: int) -> Buffer | FileSlice:
        """`read` for a peer."""
        if position < self.doubtful_to and end > self.sound_to:
            return self.read(position, end)
        return self.medium.slice(position, end - position)

    def drop_from(self, position: int) -> None:
        """Forget the batches from `position` on; what is known of times is taken from those that stay."""
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
        self.planned = self.size

    def _damaged(self, position: int, offset: int) -> CorruptBatch:
        """Where the next batch begins nobody can say: what the index knows behind it is what can be read again."""
        behind = self.index.offset_behind(position)
        return CorruptBatch(
            offset if self.base_offset <= offset < self.end_offset else self.base_offset,
            self.end_offset if behind is None else behind,
            position,
            "header",
        )


def _sound_size(data: Buffer) -> int:
    """Bytes up to the first batch that is not whole or whose checksum is wrong, or that says that it is none."""
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
