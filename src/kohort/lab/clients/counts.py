"""The counts of one partition: what a store keeps of what it owns, and a copy of what others own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from kohort.lab.order import Order


class Counts(Protocol):
    """By key. One thread changes them at a time; any may ask."""

    position: int | None
    """The checkpoint: the next offset of the changelog, of which all before is in here. None: nothing is."""

    def get(self, key: bytes) -> int | None:
        """None for a key that was never counted."""

    def take(self, changes: Mapping[bytes, int], position: int | None) -> None:
        """New counts of some keys, and the position that comes with them: a crash keeps both or neither."""

    def clear(self) -> None:
        """Forget all of it, the position too."""

    def close(self) -> None:
        """Nobody asks any more. What is kept on disk stays there."""


class Shelf(Protocol):
    """Where the counts of a member's partitions are kept."""

    def open(self, partition: int) -> Counts:
        """What is kept of it, or none yet. It is opened once at a time."""

    def kept(self) -> list[int]:
        """The partitions that something was kept of when the member started."""


class MemoryCounts:
    """Counts that end with their process."""

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


class MemoryShelf:
    """Keeps nothing that was closed."""

    def open(self, partition: int) -> Counts:
        return MemoryCounts()

    def kept(self) -> list[int]:
        return []


def shelf_for(order: Order) -> Shelf:
    """As the order asks for: in RocksDB under its directory, or in memory."""
    if not order.state:
        return MemoryShelf()
    from kohort.lab.clients.rocks import RocksShelf

    return RocksShelf(Path(order.state))


def checkpoint(counts: Counts, end: int) -> int | None:
    """Where to go on reading a changelog that ends there; counts of another one are forgotten."""
    if counts.position is not None and counts.position > end:
        counts.clear()
    return counts.position
