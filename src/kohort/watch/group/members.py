"""Members of a group, and groups as admin APIs describe them."""

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.group_events import MemberFacts
from kohort.model import Millis, TopicPartition
from kohort.watch.changes import IdPartition

REBALANCING = ("PreparingRebalance", "CompletingRebalance")
"""States in which a classic group rebalances: its members join, or wait for their assignment."""


_NOTHING = frozenset[TopicPartition]()


@dataclass(slots=True)
class WatchedMember:
    """Member of a group."""

    facts: MemberFacts
    topics: frozenset[str] = frozenset()
    expression: str | None = None
    epoch: int | None = None
    """Member epoch in a consumer group; None until its first assignment, and in a classic group."""
    stable: bool = True
    """Whether it owes no revocation and waits for no partition."""
    owned: frozenset[TopicPartition] = frozenset()
    """Partitions that it processes, as far as their topics have names."""
    held: frozenset[IdPartition] | None = None
    """The same by topic ID, in a consumer group; None if no record has told it yet."""
    away_since: Millis | None = None
    """Time at which a static member left that may return (KIP-848); None if it is there, or if the time is unknown."""
    revoking_since: Millis | None = None
    """Time from which it owes a revocation; None if it owes none."""
    slowest_revocation_ms: Millis | None = None
    """Longest time that it took to give up partitions; None if it gave up none, and in a classic group."""

    @property
    def reads(self) -> frozenset[TopicPartition]:
        """Partitions that it owns and reads: none while it is away."""
        return self.owned if self.away_since is None else _NOTHING

    @property
    def has_unnamed(self) -> bool:
        """Whether it has partitions of topics without a name, which `owned` omits."""
        return self.held is not None and len(self.held) > len(self.owned)


@dataclass(frozen=True, slots=True)
class GroupFound:
    """Group as an admin API describes it, for what precedes the history in the log."""

    group_id: str
    type: str
    state: str
    epoch: int | None
    target_epoch: int | None
    protocol: str | None
    protocol_type: str | None
    members: tuple[WatchedMember, ...]
    commits: Mapping[TopicPartition, int]


@dataclass(slots=True)
class Former:
    """Group before its deletion. It goes on with the other protocol if that is written at the same time."""

    at: Millis
    type: str
    generation: int
    protocol: str | None
    members: dict[str, WatchedMember]
