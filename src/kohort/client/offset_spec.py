"""What to ask of a partition's log where no offset and no time is named."""

from enum import IntEnum


class OffsetSpec(IntEnum):
    """What to ask for instead of a point in time; the numbers are those on the wire."""

    LATEST = -1
    """The offset of the next record to be written (or, with read_committed, of the first open transaction)."""
    EARLIEST = -2
    """The first offset that can be read."""
    MAX_TIMESTAMP = -3
    """The record with the largest timestamp (KIP-734)."""
