"""The group coordinator: a state machine without I/O and without a clock.

`GroupShard` is one partition of `__consumer_offsets`; `Effects` is what it asks of the shell around it.
"""

from kohort.coordinator.client_kind import ClientKind
from kohort.coordinator.config import GroupConfig, GroupSettings, MigrationPolicy, Weights
from kohort.coordinator.consumer.loads import Extent
from kohort.coordinator.consumer.metadata import MetadataImage, Topic
from kohort.coordinator.effects import Effects, Record, RequestContext, Token
from kohort.coordinator.events import GroupEvent, MemberRefused, TargetRefused
from kohort.coordinator.holds import Behind, Held
from kohort.coordinator.shard import GroupShard
from kohort.coordinator.silence import tells_nothing
from kohort.coordinator.states import GroupState
from kohort.coordinator.timers import HoldsEnd, Timer

__all__ = [
    "Behind",
    "ClientKind",
    "Effects",
    "Extent",
    "GroupConfig",
    "GroupEvent",
    "GroupSettings",
    "GroupShard",
    "GroupState",
    "Held",
    "HoldsEnd",
    "MemberRefused",
    "MetadataImage",
    "MigrationPolicy",
    "Record",
    "RequestContext",
    "TargetRefused",
    "Timer",
    "Token",
    "Topic",
    "Weights",
    "tells_nothing",
]
