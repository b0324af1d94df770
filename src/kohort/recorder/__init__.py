"""Rebalance recorder: cause of each rebalance, partitions that moved, and how long each partition was dark.

A partition is dark while no member of the group processes it.
"""

from kohort.recorder.journal import Journal
from kohort.recorder.record import (
    JOURNAL_TOPIC,
    MalformedRecord,
    PartitionChange,
    RebalanceRecord,
    RefusedMember,
    Trigger,
)

__all__ = [
    "JOURNAL_TOPIC",
    "Journal",
    "MalformedRecord",
    "PartitionChange",
    "RebalanceRecord",
    "RefusedMember",
    "Trigger",
]
