"""Counts of one partition, which a store keeps for owned partitions and a copy for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Counts(Protocol):
    """Counts by key. One thread changes them at a time; any thread may read them."""

    position: int | None
    """Checkpoint: the next offset of the changelog to apply. None if nothing has been applied."""

    def get(self, key: bytes) -> int | None:
        """Return the count of a key; None if the key was never counted."""

    def take(self, changes: Mapping[bytes, int], position: int | None) -> None:
        """Store new counts of some keys together with their position: after a crash, both are kept or neither."""

    def clear(self) -> None:
        """Delete all counts and the position."""

    def close(self) -> None:
        """Close the counts for good. Counts on disk are kept."""


class CountStore(Protocol):
    """Store of the counts of a member's partitions."""

    def open(self, partition: int) -> Counts:
        """Return the partition's stored counts, or empty ones. A partition may be open only once at a time."""

    def kept(self) -> list[int]:
        """Return the partitions that had stored counts when the member started."""


class MemoryCounts:
    """Counts in memory, which end with their process."""

    def __init__(self) -> None:
        self.position: int | None = None
        self._counts: dict[bytes, int] = {}

    def get(self, key: bytes) -> int | None:
        return self._counts.get(key)

    def take(self, changes: Mapping[bytes, int], position: int | None) -> None:
        self._counts.update(changes)
        self.position = position

    def clear(self) -> None:
        self._counts.clear()
        self.position = None

    def close(self) -> None:
        return


class MemoryCountStore:
    """Store that keeps nothing after counts are closed."""

    def open(self, partition: int) -> Counts:
        return MemoryCounts()

    def kept(self) -> list[int]:
        return []


def checkpoint(counts: Counts, end: int) -> int | None:
    """Return the position at which to resume reading a changelog that ends at `end`.

    Counts beyond the end belong to another changelog and are cleared.
    """
    if counts.position is not None and counts.position > end:
        counts.clear()
    return counts.position
