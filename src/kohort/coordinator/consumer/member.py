"""One member of a consumer group (KIP-848)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter

from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.coordinator.consumer.states import MemberState
from kohort.group_events import MemberFacts
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

JOIN_EPOCH = 0
"""Member epoch of a member that joins, or rejoins after it was fenced."""
LEAVE_EPOCH = -1
"""Member epoch of a member that leaves permanently."""
STATIC_LEAVE_EPOCH = -2
"""Member epoch of a static member that leaves, and will return within its session."""

_MIN_CHECK_INTERVAL_MS: Millis = 1_000
"""Minimum interval between two checks of a classic member's deadlines, for short rebalance timeouts."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's subscription: topic names, and topics that an expression matches.

    Members with equal subscriptions share one object.
    """

    names: frozenset[str] = frozenset()
    expression: str | None = None
    """Regular expression in RE2 syntax; it must match whole topic names."""


NO_SUBSCRIPTION = Subscription()


@dataclass(frozen=True, slots=True)
class ClassicProtocolState:
    """Additional state of a member that uses the classic protocol while its group migrates."""

    session_timeout_ms: Millis
    protocols: tuple[tuple[str, bytes], ...]
    """Assignor names with the member's metadata for each, preferred first; never empty."""

    @property
    def protocol(self) -> str:
        """Assignor in whose format the member is answered. It computes nothing, because the coordinator does."""
        return self.protocols[0][0]


@dataclass(slots=True)
class ConsumerMember:
    """State of a member in its group. Instances are replaced, not changed, except for the session deadline.

    All of it is durable except the deadline. `epoch` is the last epoch that the member received.
    `previous_epoch` is the one before, which the member may send again if it never received the
    response.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscription: Subscription = NO_SUBSCRIPTION
    rebalance_timeout_ms: Millis = -1
    server_assignor: str | None = None
    """Server assignor that the member requests."""
    weight: float | None = None
    """Weight that the member reports for itself, relative to others.

    0 means that the member is being drained, None that it reports no weight.
    """
    classic: ClassicProtocolState | None = None
    """State of the classic protocol if the member uses it; its generation is then `epoch`."""

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NOTHING
    """Partitions that the member may use and has received."""
    revoking: Partitions = NOTHING
    """Partitions that the member must revoke and has not reported as revoked. No other member may own them."""

    since: Millis = field(default=0, compare=False)
    """Time of the last change of its state or partitions; 0 if unknown, as after a failover."""
    session_deadline: Millis = field(default=0, compare=False)
    """End of the session unless a heartbeat arrives. A heartbeat without news changes only this."""
    last_answer: ConsumerGroupHeartbeatResponse | None = field(default=None, compare=False, repr=False)
    """Last response without news, reused for later heartbeats. It must not be modified."""

    @property
    def facts(self) -> MemberFacts:
        """Identity of the member, for the recorder."""
        return MemberFacts(self.member_id, self.client_id, self.client_host, self.instance_id)

    def last_heard(self, session_timeout_ms: Millis) -> Millis | None:
        """Return the time from which its session runs, usually that of its last heartbeat; None if it has none yet.

        `session_timeout_ms` is the group's, which counts unless it uses the classic protocol.
        """
        if self.classic is not None:
            session_timeout_ms = self.classic.session_timeout_ms
        return self.session_deadline - session_timeout_ms if self.session_deadline else None

    def copy(self) -> ConsumerMember:
        """Return a copy, which may be modified until it is shared. `dataclasses.replace` takes four times as long."""
        return ConsumerMember(*_values(self))

    def with_assignment(
        self, epoch: int, previous_epoch: int, state: MemberState, assigned: Partitions, revoking: Partitions
    ) -> ConsumerMember:
        """Return a copy of the member with another epoch, state and assignment."""
        moved = self.copy()
        moved.epoch, moved.previous_epoch, moved.state = epoch, previous_epoch, state
        moved.assigned, moved.revoking = assigned, revoking
        return moved

    def requests_same_as(self, other: ConsumerMember) -> bool:
        """Return whether both values request the same, by identity of their fields.

        This suits two successive values of one member, which share these objects.
        """
        return (
            self.subscription is other.subscription
            and self.server_assignor is other.server_assignor
            and self.classic is other.classic
        )

    def next_check_at(self, now: Millis) -> Millis:
        """Return the time of the next check of its deadlines: the end of the session, or earlier for a classic member.

        A classic member is asked to rejoin in the response to a heartbeat, which sets no timer. So
        its deadlines are checked once per rebalance timeout, and no rejoin deadline is missed.
        """
        if self.classic is None:
            return self.session_deadline
        return min(self.session_deadline, now + max(self.rebalance_timeout_ms, _MIN_CHECK_INTERVAL_MS))

    @property
    def must_revoke(self) -> bool:
        """Whether it owes the acknowledgement that it gave up partitions."""
        return self.state is MemberState.UNREVOKED_PARTITIONS

    @property
    def waits_for_others(self) -> bool:
        """Whether it waits for partitions that other members must give up."""
        return self.state is MemberState.UNRELEASED_PARTITIONS

    def is_at(self, target_epoch: int) -> bool:
        """Return whether the member has nothing left to do until the next target."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


_values = attrgetter(*(member_field.name for member_field in fields(ConsumerMember)))
