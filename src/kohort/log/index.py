"""Sparse index of a segment: finds the position of an offset or a time to within `INTERVAL` bytes."""

from array import array
from bisect import bisect_left, bisect_right

from kohort.model import Millis

INTERVAL = 16 * 1024
"""Minimum distance of two entries in bytes; a full segment of 1 GiB needs 1.6 MB of memory."""


class SparseIndex:
    """Base offset and position of a batch, and the largest timestamp of all earlier batches, as three columns."""

    __slots__ = ("_offsets", "_positions", "_times")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._positions = array("q")
        self._times = array("q")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def last(self) -> tuple[int, int] | None:
        """Base offset and position of the last batch in the index; None if the segment is empty."""
        return (self._offsets[-1], self._positions[-1]) if self._offsets else None

    def note(self, offset: int, position: int, time_before: Millis) -> None:
        """Add a batch if the last entry is at least `INTERVAL` bytes before it."""
        if not self._positions or position - self._positions[-1] >= INTERVAL:
            self._offsets.append(offset)
            self._positions.append(position)
            self._times.append(time_before)

    def position_of(self, offset: int) -> int:
        """Return a batch boundary at or before the batch that contains `offset`."""
        return self._at(bisect_right(self._offsets, offset) - 1)

    def position_at(self, position: int) -> int:
        """Return the last known batch boundary at or before `position`."""
        return self._at(bisect_right(self._positions, position) - 1)

    def offset_behind(self, position: int) -> int | None:
        """Return the offset of the first known batch boundary after `position`; None if there is none."""
        entry = bisect_right(self._positions, position)
        return self._offsets[entry] if entry < len(self._offsets) else None

    def position_before_time(self, timestamp: Millis) -> int:
        """Return a batch boundary before which all records are older than `timestamp`."""
        return self._at(bisect_left(self._times, timestamp) - 1)

    def to_bytes(self) -> bytes:
        """Return the columns one after the other, in this machine's byte order."""
        return self._offsets.tobytes() + self._positions.tobytes() + self._times.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> "SparseIndex":
        """Return the index that `to_bytes` encoded."""
        index = cls()
        third = len(data) // 3
        for start, column in enumerate((index._offsets, index._positions, index._times)):
            column.frombytes(data[start * third : (start + 1) * third])
        return index

    def _at(self, entry: int) -> int:
        return self._positions[entry] if entry > 0 else 0
