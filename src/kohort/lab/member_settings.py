"""Parameters of a member process: one JSON object, which is its only argument."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

PROTOCOLS = ("eager", "cooperative", "consumer")
"""Classic groups with the range or the cooperative-sticky assignor, and groups of KIP-848."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """A member's group and protocol, and the application's settings."""

    bootstrap: str
    group: str
    topic: str
    name: str
    """Client ID of the member."""
    protocol: str
    """One of PROTOCOLS."""
    restore_ms: int = 0
    """Simulated time to restore each new partition."""
    changelog: str = ""
    """Topic to which counts are written and from which they are restored; if empty, they are only in memory."""
    state: str = ""
    """Directory that keeps the counts in RocksDB; if empty, they are kept in memory."""
    commit_ms: int = 5_000
    """Interval between commits; 0 commits only when a partition is given up, which always commits."""
    session_ms: int = 45_000
    heartbeat_ms: int = 3_000
    metadata_ms: int = 300_000
    board: str = ""
    """Topic with the plans of what to copy before it moves; if empty, partitions move at once."""
    standbys: int = 0
    """Number of members that copy each partition besides its owner (`num.standby.replicas`)."""
    max_warmups: int = 2
    """Maximum number of concurrent copies of partitions that are to move (`max.warmup.replicas`)."""
    acceptable_lag: int = 100
    """Maximum number of records that a copy may lack to count as caught up (`acceptable.recovery.lag`)."""
    probing_ms: int = 5_000
    """Interval of reports to the group if only some copies are complete, or if a report moved nothing.

    The setting is `probing.rebalance.interval.ms`. Unlike in Streams, the group need not probe for
    complete copies: the member reports those at once.
    """

    def to_json(self) -> str:
        """Return the argument for a member's process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> MemberSettings:
        """Parse the result of `to_json`."""
        return cls(**json.loads(text))
