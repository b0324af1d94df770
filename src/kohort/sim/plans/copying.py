"""Transactional copies of a plan: from one topic to all of `COPIES`, by processes that may share a transactional id."""

from __future__ import annotations

from dataclasses import dataclass

from kohort.model import TopicPartition

# No pattern of a group matches these names.
SOURCE, SOURCE_PARTITIONS = "tx-in", 3
COPIES = {"tx-out": 2, "tx-log": 1}
"""Partition counts of the topics that get a copy of each record."""
COPIER_MAX_POLL_MS = 30_000
"""max.poll.interval.ms of copiers that are members of a group, which limits how long a rebalance waits for a member.

A member waits that long for the answer to a JoinGroup, also if the coordinator's machine has lost its power.
"""


@dataclass(frozen=True, slots=True)
class Copying:
    """One process: its transactional id, and the partitions of `SOURCE` that belong to it."""

    transactional_id: str
    partitions: tuple[TopicPartition, ...]


def copying_of(number: int, ids: int) -> Copying:
    """Return what the process with that number copies if there are so many ids; further processes share them."""
    place = number % ids
    partitions = tuple(TopicPartition(SOURCE, each) for each in range(place, SOURCE_PARTITIONS, ids))
    return Copying(f"copy-{place}", partitions)
