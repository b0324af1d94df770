"""What a member process is told: one JSON object, its only argument."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

PROTOCOLS = ("eager", "cooperative", "consumer")
"""Classic groups with the range assignor or with cooperative-sticky, and groups of KIP-848."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Where to join, how, and what the application does with what it gets."""

    bootstrap: str
    group: str
    topic: str
    name: str
    """Its client id."""
    protocol: str
    """One of PROTOCOLS."""
    restore_ms: int = 0
    """Pretend to restore so long for each partition that is won."""
    changelog: str = ""
    """The topic that the counts are written to and restored from; empty: they are kept in memory alone."""
    state: str = ""
    """The directory that keeps the counts, in RocksDB; empty: they are kept in memory."""
    commit_ms: int = 5_000
    """Positions are committed so often, and whenever a partition is given up; 0: only then."""
    session_ms: int = 45_000
    heartbeat_ms: int = 3_000
    metadata_ms: int = 300_000
    board: str = ""
    """The topic that carries plans of what to copy before it moves; empty: partitions move at once."""
    standbys: int = 0
    """So many members copy each partition beside its owner (`num.standby.replicas`)."""
    max_warmups: int = 2
    """So many copies at most are made at a time for what is to move (`max.warmup.replicas`)."""
    acceptable_lag: int = 100
    """A copy with at most so many records to go is close behind (`acceptable.recovery.lag`)."""
    probing_ms: int = 5_000
    """The group is told so often where only some of what is to move is copied, or where telling it moved nothing
    (`probing.rebalance.interval.ms`); it need not be asked when all is there, as Streams does: that is told at once."""

    def to_json(self) -> str:
        """As the argument of a member's process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Order:
        """The inverse of `to_json`."""
        return cls(**json.loads(text))
