"""Where in a segment an offset or a time lies, to within `INTERVAL` bytes."""

from array import array
from bisect import bisect_left, bisect_right

from kohort.model import Millis

INTERVAL = 16 * 1024
"""Bytes between two entries; a full segment of 1 GiB costs 1.6 MB of memory."""


class SparseIndex:
    """Three columns: a batch's base offset, its position, and the largest timestamp of all batches before it."""

    __slots__ = ("_offsets", "_positions", "_times")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._positions = array("q")
        self._times = array("q")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def last(self) -> tuple[int, int] | None:
        """Base offset and position of the last batch that is entered; None of an empty segment."""
        return (self._offsets[-1], self._positions[-1]) if self._offsets else None

    def note(self, offset: int, position: int, time_before: Millis) -> None:
        """Enter a batch where the last entry is far enough behind."""
        if not self._positions or position - self._positions[-1] >= INTERVAL:
            self._offsets.append(offset)
            self._positions.append(position)
            self._times.append(time_before)

    def position_of(self, offset: int) -> int:
        """A batch boundary at or before the batch that holds `offset`."""
        return self._at(bisect_right(self._offsets, offset) - 1)

    def position_at(self, position: int) -> int:
        """The last known batch boundary at or before `position`."""
        return self._at(bisect_right(self._positions, position) - 1)

    def offset_behind(self, position: int) -> int | None:
        """The offset of the first known batch boundary behind `position`; None where none is entered."""
        entry = bisect_right(self._positions, position)
        return self._offsets[entry] if entry < len(self._offsets) else None

    def position_before_time(self, timestamp: Millis) -> int:
        """A batch boundary before which everything is older than `timestamp`."""
        return self._at(bisect_left(self._times, timestamp) - 1)

    def to_bytes(self) -> bytes:
        """The columns one behind the other, in this machine's byte order."""
        return self._offsets.tobytes() + self._positions.tobytes() + self._times.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> "SparseIndex":
        """The index that `to_bytes` wrote."""
        index = cls()
        third = len(data) // 3
        for start, column in enumerate((index._offsets, index._positions, index._times)):
            column.frombytes(data[start * third : (start + 1) * third])
        return index

    def _at(self, entry: int) -> int:
        return self._positions[entry] if entry > 0 else 0
