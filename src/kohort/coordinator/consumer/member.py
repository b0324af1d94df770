"""One member of a consumer group (KIP-848)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter

from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.events import MemberFacts
from kohort.model import Millis
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

JOINING = 0
"""As a member epoch: it enters the group, or comes back after it was fenced."""
LEAVING = -1
"""As a member epoch: it leaves for good."""
AWAY = -2
"""As a member epoch: a static member leaves, and will be back within its session."""

_SHORTEST_LOOK_MS: Millis = 1_000
"""Between two looks at a classic member's deadlines, however short its rebalance timeout is."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member asks for: topics by name, and those that an expression matches. Who asks the same shares one."""

    names: frozenset[str] = frozenset()
    expression: str | None = None
    """In RE2's syntax; it must match whole topic names."""


NO_SUBSCRIPTION = Subscription()


@dataclass(frozen=True, slots=True)
class ClassicSide:
    """What a consumer group knows besides of a member that speaks the classic protocol, while it migrates."""

    session_timeout_ms: Millis
    protocols: tuple[tuple[str, bytes], ...]
    """What it said to each assignor that it supports, by name, the preferred one first; never empty."""

    @property
    def protocol(self) -> str:
        """The assignor by whose bytes it is answered. It computes nothing: the coordinator does."""
        return self.protocols[0][0]


@dataclass(slots=True)
class ConsumerMember:
    """What the group knows of a member. Replaced, not changed, but for the session's deadline.

    All of it is durable but the deadline. Its epoch is the last one that it was told; `previous_epoch` the one before,
    under which it may come once more if it never got the answer.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscription: Subscription = NO_SUBSCRIPTION
    rebalance_timeout_ms: Millis = -1
    server_assignor: str | None = None
    """The server assignor that it asks for."""
    weight: float | None = None
    """How much it wants beside others, as it says itself; 0 to be drained, None where it says nothing."""
    classic: ClassicSide | None = None
    """Set for a member that speaks the classic protocol; its epoch is what it takes for the generation."""

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NOTHING
    """What it may use; it has been told so."""
    revoking: Partitions = NOTHING
    """What it was told to give up, and did not report gone yet. Nobody else may have it."""

    since: Millis = field(default=0, compare=False)
    """Since when it has what it has, and waits for what it waits for; 0 where nobody knows, after a failover."""
    session_deadline: Millis = field(default=0, compare=False)
    """When the session ends unless the member is heard of; a heartbeat only moves this."""
    last_answer: ConsumerGroupHeartbeatResponse | None = field(default=None, compare=False, repr=False)
    """What it was told when there was no news; mostly it is told the same again, and nobody changes it."""

    @property
    def facts(self) -> MemberFacts:
        """Who it is, for the recorder."""
        return MemberFacts(self.member_id, self.client_id, self.client_host, self.instance_id)

    def copied(self) -> ConsumerMember:
        """A copy, to be changed before anybody else has it: `dataclasses.replace` takes four times as long."""
        return ConsumerMember(*_values(self))

    def standing(
        self, epoch: int, previous_epoch: int, state: MemberState, assigned: Partitions, revoking: Partitions
    ) -> ConsumerMember:
        """The same member elsewhere on its way."""
        moved = self.copied()
        moved.epoch, moved.previous_epoch, moved.state = epoch, previous_epoch, state
        moved.assigned, moved.revoking = assigned, revoking
        return moved

    def describes_as(self, other: ConsumerMember) -> bool:
        """Whether both ask for the same, as two values of a member do of which one is a step after the other."""
        return (
            self.subscription is other.subscription
            and self.server_assignor is other.server_assignor
            and self.classic is other.classic
        )

    def look_again_at(self, now: Millis) -> Millis:
        """When its deadlines are to be looked at: when its session ends, or before what it may be told now is due.

        A classic member is told to join again by an answer to a heartbeat, which sets no timer. So it is looked at once
        in each of its rebalance timeouts; then no such deadline passes unseen.
        """
        if self.classic is None:
            return self.session_deadline
        return min(self.session_deadline, now + max(self.rebalance_timeout_ms, _SHORTEST_LOOK_MS))

    def is_at(self, target_epoch: int) -> bool:
        """Whether nothing is left to do until the next target."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


_values = attrgetter(*(one.name for one in fields(ConsumerMember)))
