"""What the mirror asks the shell to do. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from kohort.coordinator import Effects
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest

PROBE_INTERVAL: Millis = 1_000
"""Time between two probes of a group in which nothing is known to happen."""

LeaveRequest = ConsumerGroupHeartbeatRequest | LeaveGroupRequest
"""Request with which a member leaves its group."""


@dataclass(frozen=True, slots=True)
class ProbeDue:
    """Time to ask the coordinator for one member of a group, for what the gateway cannot see."""

    group_id: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Heartbeat to send to the coordinator in place of a member, on the connection of a request that is held."""

    token: Hashable
    """Token of the request that is held."""
    request: ConsumerGroupHeartbeatRequest | HeartbeatRequest


@dataclass(slots=True)
class Outcome:
    """What the shell must do: `effects` as for a coordinator (without records), and probes to send."""

    effects: Effects = field(default_factory=Effects)
    timers: dict[ProbeDue, Millis | None] = field(default_factory=dict)
    probes: list[Probe] = field(default_factory=list)
