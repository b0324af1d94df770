"""Symbolic offsets of a partition's log."""

from enum import IntEnum


class OffsetSpec(IntEnum):
    """Symbolic offset to request instead of a timestamp, with its number on the wire."""

    LATEST = -1
    """Offset of the next record to be appended or, with read_committed, of the first open transaction."""
    EARLIEST = -2
    """First offset that can be read."""
    MAX_TIMESTAMP = -3
    """Record with the largest timestamp (KIP-734)."""
