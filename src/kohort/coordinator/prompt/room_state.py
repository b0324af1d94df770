"""State of the prompt room of one coordinator."""

from dataclasses import dataclass, field

from kohort.coordinator.prompt.facts import GroupFacts
from kohort.coordinator.prompt.held_heartbeats import HeldHeartbeats
from kohort.model import Millis


@dataclass(slots=True)
class RoomState:
    """State that the functions of this room share."""

    hold_ms: Millis
    """group.heartbeat.hold.ms, which is not 0."""
    groups: GroupFacts
    held: HeldHeartbeats = field(default_factory=HeldHeartbeats)
