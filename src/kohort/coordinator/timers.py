"""The coordinator's timers, as values: the shell fires each once at its time unless it was replaced or cancelled."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionTimeout:
    """The member's session may have ended. A heartbeat only moves the deadline, so the core looks again on firing."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RebalanceTimeout:
    """The group stops waiting for members that did not rejoin."""

    group_id: str


@dataclass(frozen=True, slots=True)
class InitialDelay:
    """The first rebalance of an empty group stops waiting for more members (group.initial.rebalance.delay.ms)."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncTimeout:
    """Members that have not sent SyncGroup by then are removed (KAFKA-12890)."""

    group_id: str


@dataclass(frozen=True, slots=True)
class PendingMemberTimeout:
    """A member id that was handed out (KIP-394) and never used is forgotten."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class MemberRebalanceTimeout:
    """A member of a consumer group has not given up in time what it was told to."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ExpressionRefresh:
    """The expressions of a consumer group are to be looked up among all topics (or further, if that is under way)."""

    group_id: str


@dataclass(frozen=True, slots=True)
class TargetDue:
    """The interval since the last target of a consumer group is over, and its held heartbeats may hear of a new one."""

    group_id: str


@dataclass(frozen=True, slots=True)
class CollectingEnds:
    """Members of an eager assignor are told of a rebalance, though some of them cannot be told now."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncsHeldEnd:
    """SyncGroups are answered that waited for members of a cooperative assignor to give up partitions."""

    group_id: str


@dataclass(frozen=True, slots=True)
class GrowthDue:
    """Look whether a classic group reads the partitions that a topic got a moment ago."""

    group_id: str


@dataclass(frozen=True, slots=True)
class HoldsEnd:
    """Held heartbeats of the shard are to be answered, since their members would send the next ones soon."""


@dataclass(frozen=True, slots=True)
class OffsetExpiry:
    """Look for offsets past offsets.retention.minutes, in every group of the shard."""


GroupTimer = (
    SessionTimeout
    | RebalanceTimeout
    | InitialDelay
    | SyncTimeout
    | PendingMemberTimeout
    | MemberRebalanceTimeout
    | ExpressionRefresh
    | TargetDue
    | CollectingEnds
    | SyncsHeldEnd
    | GrowthDue
)
"""Those of one group."""

Timer = GroupTimer | OffsetExpiry | HoldsEnd
