"""Facts about groups that the prompt room needs. The coordinator implements them; a gateway can, too.

The rules own groups and members; the room only reads these facts: the members with news, those that
owe an acknowledgement, and those that wait for others. The objects that belong to the room (`ClassicHeartbeats`,
`RebalanceNotice`, `RestartingMembers`, `FormerMembers`) are kept by the member, rebalance or group
that they describe, so that they end with it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from kohort.coordinator.client_kind import ClientKind
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.prompt.held_heartbeats import ClassicHeartbeats, GroupPartition
from kohort.coordinator.prompt.restarting_members import RestartingMembers
from kohort.coordinator.prompt.returning_members import FormerMembers
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest


@dataclass(slots=True)
class RebalanceNotice:
    """The notification of a classic group's members of one rebalance."""

    is_delayed: bool = False
    """Whether the notification of members with held heartbeats is delayed, because some members cannot be notified now,
    the successor of a member that left is awaited, or more new members may join."""
    due_at: Millis = 0
    """Latest time at which eager members are notified, even if some of them cannot be notified then."""
    new_members_until: Millis | None = None
    """Latest time until which the notification of the members waits for more new members; None if it does not wait."""


class ClassicMemberFacts(Protocol):
    """A member of a classic group."""

    heartbeats: ClassicHeartbeats

    @property
    def member_id(self) -> str: ...
    @property
    def client(self) -> ClientKind: ...
    @property
    def session_timeout_ms(self) -> Millis: ...
    @property
    def joined_at(self) -> Millis:
        """Time of its last JoinGroup; 0 if unknown."""

    @property
    def is_new(self) -> bool:
        """Whether it waits for the answer to its first join: without a generation it cannot send heartbeats."""


class ClassicGroupFacts(Protocol):
    """A classic group."""

    @property
    def group_id(self) -> str: ...
    @property
    def members(self) -> Mapping[str, ClassicMemberFacts]: ...
    @property
    def rejoined(self) -> Collection[str]:
        """Members that have joined in the current rebalance, and wait for the others."""

    @property
    def awaits_joins(self) -> bool:
        """Whether a rebalance is in its join phase: members are to rejoin."""

    @property
    def all_process(self) -> bool:
        """Whether no rebalance is in progress, and none is about to follow because members must give up partitions."""

    @property
    def is_eager(self) -> bool:
        """Whether members give up all partitions when they learn of a rebalance."""

    @property
    def is_cooperative(self) -> bool:
        """Whether all members keep processing their partitions while the group rebalances (KIP-429)."""

    @property
    def rebalance_timeout_ms(self) -> Millis: ...
    @property
    def generation_at(self) -> Millis | None:
        """Time at which the last generation was written; None if there is none."""

    @property
    def notice(self) -> RebalanceNotice:
        """The notification of the current rebalance."""

    @property
    def restarts(self) -> RestartingMembers: ...
    @property
    def former_members(self) -> FormerMembers: ...


class ConsumerMemberFacts(Protocol):
    """A member of a consumer group."""

    @property
    def member_id(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def must_revoke(self) -> bool:
        """Whether it owes the acknowledgement that it gave up partitions."""

    @property
    def waits_for_others(self) -> bool:
        """Whether it waits for partitions that other members must give up."""


class ConsumerGroupFacts(Protocol):
    """A consumer group."""

    @property
    def group_id(self) -> str: ...
    @property
    def members(self) -> Mapping[str, ConsumerMemberFacts]: ...
    @property
    def target_at(self) -> Millis:
        """Time of the last target assignment."""

    @property
    def awaits_target(self) -> bool:
        """Whether the group has changed since the last target assignment."""

    @property
    def moving(self) -> Collection[str]:
        """Members whose assignment differs from their target, or that still have partitions to revoke."""

    def waits_for(self, member_id: str) -> Collection[GroupPartition]:
        """Return the partitions that other members must give up before this one can have them."""

    def would_move(self, member_id: str) -> bool:
        """Return whether the next answer to the member would change its partitions."""


class HeartbeatSettings(Protocol):
    """Settings of one consumer group."""

    @property
    def session_timeout_ms(self) -> Millis: ...
    @property
    def heartbeat_interval_ms(self) -> Millis: ...


class GroupFacts(Protocol):
    """All groups of one coordinator, and the rules that make an answer."""

    def settings(self, group_id: str, /) -> HeartbeatSettings:
        """Return the settings of a consumer group."""

    def classic(self, group_id: str) -> ClassicGroupFacts | None:
        """Return the group with that ID if it is a classic group, else None."""

    def consumer(self, group_id: str) -> ConsumerGroupFacts | None:
        """Return the group with that ID if it is a consumer group, else None."""

    def next_target_at(self, group_id: str) -> Millis:
        """Return when a consumer group that awaits its target may get it, without a request of a member."""

    def classic_answer(self, request: HeartbeatRequest, now: Millis) -> ErrorCode:
        """Return the answer that a classic heartbeat, which arrived earlier, gets now. Its session is not renewed."""

    def consumer_answer(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: Millis, out: Effects
    ) -> ConsumerGroupHeartbeatResponse:
        """Return the answer that a heartbeat, which arrived earlier, gets now. Its session is not renewed."""
