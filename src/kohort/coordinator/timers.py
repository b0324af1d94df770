"""The coordinator's timers as values: the shell fires each one once at its time unless it is replaced or cancelled."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionTimeout:
    """End of a member's session. A heartbeat only moves the deadline, so the core checks it when the timer fires."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RebalanceTimeout:
    """End of the wait for members that have not rejoined the group."""

    group_id: str


@dataclass(frozen=True, slots=True)
class InitialRebalanceDelay:
    """End of the wait for more members in an empty group's first rebalance (group.initial.rebalance.delay.ms)."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncTimeout:
    """Deadline for SyncGroup requests; members that miss it are removed (KAFKA-12890)."""

    group_id: str


@dataclass(frozen=True, slots=True)
class PendingMemberTimeout:
    """Deadline for the use of a member ID that was handed out (KIP-394); then it is forgotten."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class MemberRebalanceTimeout:
    """Deadline for a member of a consumer group to give up the partitions that it must revoke."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ExpressionRefresh:
    """Time to match a consumer group's expressions against all topics, or to continue a match in progress."""

    group_id: str


@dataclass(frozen=True, slots=True)
class TargetDue:
    """End of the assignment interval of a consumer group: its held heartbeats may deliver a new target."""

    group_id: str


@dataclass(frozen=True, slots=True)
class NotificationDue:
    """Latest time to notify members of an eager assignor of a rebalance, even if some cannot be notified."""

    group_id: str


@dataclass(frozen=True, slots=True)
class HeldSyncsDue:
    """End of the wait of SyncGroups for members of a cooperative assignor to give up partitions."""

    group_id: str


@dataclass(frozen=True, slots=True)
class NewPartitionsCheck:
    """Time to check whether a classic group reads the partitions that a topic recently got."""

    group_id: str


@dataclass(frozen=True, slots=True)
class HeldHeartbeatsDue:
    """Time to answer held heartbeats of the shard, because their members would send the next ones soon."""


@dataclass(frozen=True, slots=True)
class OffsetExpiry:
    """Time to look for offsets past offsets.retention.minutes in every group of the shard."""


GroupTimer = (
    SessionTimeout
    | RebalanceTimeout
    | InitialRebalanceDelay
    | SyncTimeout
    | PendingMemberTimeout
    | MemberRebalanceTimeout
    | ExpressionRefresh
    | TargetDue
    | NotificationDue
    | HeldSyncsDue
    | NewPartitionsCheck
)
"""Timers of one group."""

Timer = GroupTimer | OffsetExpiry | HeldHeartbeatsDue
