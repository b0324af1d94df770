"""Steps of a plan: everything that happens to a world from outside, as values.

A step's text is its time, its name, and its attributes in order: `at 1.5000 member-kill 3 0.5`. The
name is that of its class.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, TypeAlias, get_args, get_type_hints

from kohort.sim.bad_request_names import BadRequest


@dataclass(frozen=True, slots=True)
class TimedStep:
    """Step at `at` seconds after the start."""

    at: float

    @classmethod
    def name(cls) -> str:
        """Return the name of this kind of step in plans and reports: `member-kill` for MemberKill."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    @property
    def number(self) -> int:
        """Number of the member, broker or client that the step is about; -1 if it is about none."""
        return -1

    def __str__(self) -> str:
        return f"at {self.at:.4f} {self.description}"

    @property
    def description(self) -> str:
        """Text without the time."""
        return " ".join([self.name(), *(_text(getattr(self, field.name)) for field in fields(self)[1:])])


@dataclass(frozen=True, slots=True)
class _MemberStep(TimedStep):
    member: int

    @property
    def number(self) -> int:
        return self.member


@dataclass(frozen=True, slots=True)
class _MemberOutage(_MemberStep):
    seconds: float


@dataclass(frozen=True, slots=True)
class MemberStart(_MemberStep):
    """Start the member's process."""


@dataclass(frozen=True, slots=True)
class MemberLeave(_MemberOutage):
    """Let the member leave its group and end; it is started again."""


@dataclass(frozen=True, slots=True)
class MemberSwitchProtocol(_MemberOutage):
    """Let the member leave, and start it again with the other protocol."""


@dataclass(frozen=True, slots=True)
class MemberKill(_MemberOutage):
    """Kill the member's process; it is started again."""


@dataclass(frozen=True, slots=True)
class MemberPowerOff(_MemberOutage):
    """End the member's machine, so that its peers are not notified; its process is started again."""


@dataclass(frozen=True, slots=True)
class MemberSuspend(_MemberOutage):
    """Stop the member's process (SIGSTOP) for a time."""


@dataclass(frozen=True, slots=True)
class MemberResetConnections(_MemberStep):
    """Reset all connections of the member."""


@dataclass(frozen=True, slots=True)
class MemberDisconnect(_MemberOutage):
    """Block both directions between the member and the brokers."""


@dataclass(frozen=True, slots=True)
class MemberBlockIncoming(_MemberOutage):
    """Block what the brokers send to the member."""


@dataclass(frozen=True, slots=True)
class MemberBlockOutgoing(_MemberOutage):
    """Block what the member sends to the brokers."""


@dataclass(frozen=True, slots=True)
class MemberSubscribe(_MemberStep):
    """Subscribe to other topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemberSetWeight(_MemberStep):
    """Change the member's weight."""

    weight: int


@dataclass(frozen=True, slots=True)
class MemberStopPolling(_MemberOutage):
    """Let the member not poll for this time and its max.poll.interval.ms."""


@dataclass(frozen=True, slots=True)
class MemberSlowCallback(_MemberStep):
    """Change the duration of the member's callbacks."""

    milliseconds: int


@dataclass(frozen=True, slots=True)
class MemberExpire(_MemberStep):
    """Remove the member as if its session had expired, as the test kit does; its process lives."""


@dataclass(frozen=True, slots=True)
class MemberRejectPassword(_MemberOutage):
    """Let the brokers reject the member's password for a time."""


class Right(StrEnum):
    """Permission that a principal has by an ACL."""

    READ_TOPIC = "read-topic"
    DESCRIBE_TOPIC = "describe-topic"
    """A principal that loses this right may not read the topic either."""
    READ_GROUP = "read-group"


@dataclass(frozen=True, slots=True)
class MemberLoseRight(_MemberStep):
    """Delete ACLs of the member's principal for a time; `topic` matters only for a right to a topic."""

    right: Right
    topic: str
    seconds: float


@dataclass(frozen=True, slots=True)
class _BrokerStep(TimedStep):
    broker: int

    @property
    def number(self) -> int:
        return self.broker


@dataclass(frozen=True, slots=True)
class _BrokerOutage(_BrokerStep):
    seconds: float


@dataclass(frozen=True, slots=True)
class BrokerKill(_BrokerOutage):
    """Kill the broker's process."""


@dataclass(frozen=True, slots=True)
class BrokerPowerOff(_BrokerOutage):
    """End the broker's machine, so that its peers are not notified."""


@dataclass(frozen=True, slots=True)
class BrokerTerminate(_BrokerOutage):
    """Send SIGTERM to the broker."""


@dataclass(frozen=True, slots=True)
class BrokerSuspend(_BrokerOutage):
    """Stop the broker's process (SIGSTOP) for a time."""


@dataclass(frozen=True, slots=True)
class BrokerDisconnectDatabase(_BrokerOutage):
    """Block the network between the broker and its database."""


@dataclass(frozen=True, slots=True)
class BrokerClockJump(_BrokerStep):
    """Change the clock of the broker's machine."""

    seconds: float


@dataclass(frozen=True, slots=True)
class BrokersSkipTime(TimedStep):
    """Let the clocks of all brokers jump ahead, as the test kit does: members that live do not notice."""

    seconds: float


@dataclass(frozen=True, slots=True)
class BrokerKillAfterJoinPhase(TimedStep):
    """Kill a broker right after the next join phase of a classic group."""


@dataclass(frozen=True, slots=True)
class BrokerForgetFetchSessions(TimedStep):
    """Remove all fetch sessions of all brokers."""


@dataclass(frozen=True, slots=True)
class _Outage(TimedStep):
    seconds: float


@dataclass(frozen=True, slots=True)
class DiskError(_Outage):
    """Let all writes fail."""


@dataclass(frozen=True, slots=True)
class DiskFull(_Outage):
    """Let all writes fail for want of space."""


@dataclass(frozen=True, slots=True)
class DiskSlow(_Outage):
    """Delay all work on the disk for ten times this time."""


@dataclass(frozen=True, slots=True)
class DiskBitFlip(TimedStep):
    """Flip a bit of the groups' log when it is opened next."""


@dataclass(frozen=True, slots=True)
class DiskBitFlipInRecords(TimedStep):
    """Flip a bit of a record in a topic that no group reads, while a broker runs."""


@dataclass(frozen=True, slots=True)
class NetworkSlow(TimedStep):
    """Increase the transit time of all bytes by up to `delay` seconds, for 20 seconds."""

    delay: float


class Effect(StrEnum):
    """Effect of a fault on a single message."""

    REQUEST_LATE = "request-late"
    RESPONSE_LATE = "response-late"
    RESPONSE_LOST = "response-lost"
    """The connection is lost, too."""
    REQUEST_AFTER_CLOSE = "request-after-close"
    """The client loses the connection at once, and the request still arrives, late."""


@dataclass(frozen=True, slots=True)
class MessageFault(TimedStep):
    """Delay the next request of that name, or its response, or lose the connection."""

    effect: Effect
    request: str
    seconds: float


@dataclass(frozen=True, slots=True)
class _ClientStep(TimedStep):
    client: int

    @property
    def number(self) -> int:
        return self.client


@dataclass(frozen=True, slots=True)
class _ClientOutage(_ClientStep):
    seconds: float


@dataclass(frozen=True, slots=True)
class ClientKill(_ClientOutage):
    """Kill a writer or reader of records; it is started again."""


@dataclass(frozen=True, slots=True)
class ClientSuspend(_ClientOutage):
    """Stop its process (SIGSTOP) for a time."""


@dataclass(frozen=True, slots=True)
class ClientResetConnections(_ClientStep):
    """Reset all its connections."""


@dataclass(frozen=True, slots=True)
class ClientDisconnect(_ClientOutage):
    """Block both directions between it and the brokers."""


@dataclass(frozen=True, slots=True)
class ClientBlockIncoming(_ClientOutage):
    """Block what the brokers send to it."""


@dataclass(frozen=True, slots=True)
class ClientBlockOutgoing(_ClientOutage):
    """Block what it sends to the brokers."""


@dataclass(frozen=True, slots=True)
class ClientSeek(_ClientOutage):
    """Let a reader seek to the beginning, and after `seconds` to an offset that it has read."""


@dataclass(frozen=True, slots=True)
class Produce(TimedStep):
    """Write `count` records to each partition of a topic."""

    topic: str
    count: int


@dataclass(frozen=True, slots=True)
class TopicCreate(TimedStep):
    """Create a topic."""

    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class TopicGrow(TimedStep):
    """Add partitions to a topic."""

    topic: str
    more: int


@dataclass(frozen=True, slots=True)
class TopicDelete(TimedStep):
    """Delete a topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class FeatureSetLevel(TimedStep):
    """Raise or lower the level of the feature transaction.version."""

    level: int


@dataclass(frozen=True, slots=True)
class PartitionReassign(TimedStep):
    """Move a partition to other brokers."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReassignmentCancel(TimedStep):
    """Cancel the reassignment of a partition."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class LeaderElect(TimedStep):
    """Elect the preferred leader of a partition."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class LeaderKill(TimedStep):
    """Kill the process of the broker that leads a partition."""

    topic: str
    partition: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _GatewayOutage(TimedStep):
    gateway: int
    seconds: float

    @property
    def number(self) -> int:
        return self.gateway


@dataclass(frozen=True, slots=True)
class GatewayKill(_GatewayOutage):
    """Kill the gateway's process; it is started again."""


@dataclass(frozen=True, slots=True)
class GatewayPowerOff(_GatewayOutage):
    """End the gateway's machine, so that its peers are not notified; its process is started again."""


@dataclass(frozen=True, slots=True)
class GatewayTerminate(_GatewayOutage):
    """Send SIGTERM to the gateway; it is started again."""


@dataclass(frozen=True, slots=True)
class GatewaySuspend(_GatewayOutage):
    """Stop the gateway's process (SIGSTOP) for a time."""


@dataclass(frozen=True, slots=True)
class GatewayDisconnect(_GatewayOutage):
    """Block both directions between the gateway and the brokers."""


@dataclass(frozen=True, slots=True)
class _GroupStep(TimedStep):
    group: str


@dataclass(frozen=True, slots=True)
class GroupRemoveMembers(_GroupStep):
    """Remove all members of a group."""


@dataclass(frozen=True, slots=True)
class GroupDelete(_GroupStep):
    """Delete a group."""


@dataclass(frozen=True, slots=True)
class GroupDeleteOffsets(_GroupStep):
    """Delete the offsets of a group."""


@dataclass(frozen=True, slots=True)
class SendBadRequest(_GroupStep):
    """Send a request that the group's coordinator must reject."""

    request: BadRequest


@dataclass(frozen=True, slots=True)
class SendAllBadRequests(_GroupStep):
    """Send bad requests of all kinds every few milliseconds for two seconds."""


MemberStep: TypeAlias = (
    MemberStart | MemberLeave | MemberSwitchProtocol | MemberKill | MemberPowerOff | MemberSuspend
    | MemberResetConnections | MemberDisconnect | MemberBlockIncoming | MemberBlockOutgoing | MemberSubscribe
    | MemberSetWeight | MemberStopPolling | MemberSlowCallback | MemberRejectPassword | MemberLoseRight
    | MemberExpire
)  # fmt: skip
BrokerStep: TypeAlias = BrokerKill | BrokerPowerOff | BrokerTerminate | BrokerSuspend | BrokerDisconnectDatabase
EnvironmentStep: TypeAlias = (
    BrokerClockJump | BrokerKillAfterJoinPhase | DiskError | DiskFull | DiskSlow | DiskBitFlip | NetworkSlow
    | MessageFault | BrokersSkipTime
)  # fmt: skip
RecordStep: TypeAlias = (
    ClientKill | ClientSuspend | ClientResetConnections | ClientDisconnect | ClientBlockIncoming
    | ClientBlockOutgoing | ClientSeek | BrokerForgetFetchSessions | DiskBitFlipInRecords
)  # fmt: skip
LeaderStep: TypeAlias = PartitionReassign | ReassignmentCancel | LeaderElect | LeaderKill
OperatorStep: TypeAlias = (
    Produce | TopicCreate | TopicGrow | TopicDelete | GroupRemoveMembers | GroupDelete | GroupDeleteOffsets
    | SendBadRequest | SendAllBadRequests | FeatureSetLevel
)  # fmt: skip
GatewayStep: TypeAlias = GatewayKill | GatewayPowerOff | GatewayTerminate | GatewaySuspend | GatewayDisconnect
Step: TypeAlias = MemberStep | BrokerStep | GatewayStep | EnvironmentStep | RecordStep | LeaderStep | OperatorStep

OrderlyStep: TypeAlias = (
    MemberStart | MemberLeave | MemberSwitchProtocol | MemberSubscribe | MemberSetWeight | Produce | TopicCreate
    | TopicGrow | TopicDelete | FeatureSetLevel
)  # fmt: skip
"""Steps that must not repeat records. Operators who remove members, groups or offsets cause repetition."""

_KINDS: tuple[type[Step], ...] = (
    MessageFault, BrokerKillAfterJoinPhase, DiskBitFlip, BrokerDisconnectDatabase, BrokerKill, BrokerSuspend,
    BrokerTerminate, BrokerPowerOff, ReassignmentCancel, MemberSlowCallback, ClientDisconnect,
    ClientBlockIncoming, ClientKill, ClientBlockOutgoing, ClientResetConnections, ClientSeek, ClientSuspend,
    BrokerClockJump, TopicCreate, SendAllBadRequests, MemberDisconnect, MemberBlockIncoming, TopicDelete,
    GroupDelete, GroupDeleteOffsets, DiskError, DiskFull, DiskSlow, LeaderElect, BrokerForgetFetchSessions,
    TopicGrow, MemberKill, MemberLeave, MemberBlockOutgoing, MemberStopPolling, Produce, PartitionReassign,
    GroupRemoveMembers, MemberResetConnections, NetworkSlow, DiskBitFlipInRecords, MemberStart, MemberSuspend,
    SendBadRequest, MemberSubscribe, MemberSwitchProtocol, MemberPowerOff, MemberSetWeight, MemberRejectPassword,
    MemberLoseRight, BrokersSkipTime, MemberExpire, LeaderKill, GatewayKill, GatewayPowerOff, GatewayTerminate,
    GatewaySuspend, GatewayDisconnect, FeatureSetLevel,
)  # fmt: skip
"""All kinds of steps. Steps at the same time are in this order, which is part of what a seed means."""
assert set(_KINDS) == set(get_args(Step))
_BY_NAME = {kind.name(): kind for kind in _KINDS}
_RANKS: dict[type[TimedStep], int] = {kind: rank for rank, kind in enumerate(_KINDS)}


def is_fault(kind: type[Step]) -> bool:
    """Return whether steps of this kind are faults, and not changes that users and operators make."""
    return not issubclass(kind, OrderlyStep | GroupRemoveMembers | GroupDelete | GroupDeleteOffsets)


def sort(steps: list[Step]) -> None:
    """Sort the steps of a plan by time."""
    steps.sort(key=lambda step: (step.at, _RANKS[type(step)], step.number))


def parse(text: str) -> Step:
    """Parse the text of a step. Raises ValueError."""
    _, at, name, *words = text.split()
    kind = _BY_NAME.get(name)
    if kind is None:
        raise ValueError(f"no step is called {name!r}")
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)[1:]]
    if len(words) != len(names):
        raise ValueError(f"{name} has {len(names)} attributes: {', '.join(names)}")
    values = [_value(hints[name], word) for name, word in zip(names, words, strict=True)]
    return kind(float(at), *values)


def _value(hint: Any, word: str) -> Any:
    if hint == tuple[str, ...]:
        return tuple(word.split(","))
    if hint == tuple[int, ...]:
        return tuple(map(int, word.split(",")))
    return hint(word)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:.10g}" if isinstance(value, float) else str(value)
