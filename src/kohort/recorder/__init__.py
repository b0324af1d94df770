"""The recorder: every rebalance with its cause, who moved what, and how long each partition was dark."""

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
