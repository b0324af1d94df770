"""Rebalance recorder: cause of each rebalance, partitions that moved, and how long each partition was dark.

A partition is dark while no member of the group processes it.
"""

from kohort.recorder.held_offsets import HeldOffsets
from kohort.recorder.journal import Journal
from kohort.recorder.patterns import (
    BURST_MS,
    EPISODE_MS,
    LEAST_REBALANCES,
    LEAST_RETURNS,
    REBALANCES_PER_RESTART,
    RETURN_MS,
    Burst,
    Coming,
    Flapping,
    MemberName,
    Return,
    bursts,
    comings,
    flapping,
    is_eager,
    is_follow_up,
    name_of,
    needless_moves,
    returns,
)
from kohort.recorder.record import (
    JOURNAL_TOPIC,
    MalformedRecord,
    PartitionChange,
    RebalanceRecord,
    RefusedMember,
    Trigger,
)

__all__ = [
    "BURST_MS",
    "EPISODE_MS",
    "JOURNAL_TOPIC",
    "LEAST_REBALANCES",
    "LEAST_RETURNS",
    "REBALANCES_PER_RESTART",
    "RETURN_MS",
    "Burst",
    "Coming",
    "Flapping",
    "HeldOffsets",
    "Journal",
    "MalformedRecord",
    "MemberName",
    "PartitionChange",
    "RebalanceRecord",
    "RefusedMember",
    "Return",
    "Trigger",
    "bursts",
    "comings",
    "flapping",
    "is_eager",
    "is_follow_up",
    "name_of",
    "needless_moves",
    "returns",
]
