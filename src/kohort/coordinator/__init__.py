"""The group coordinator: a state machine without I/O and without a clock.

`GroupShard` is one partition of `__consumer_offsets`. `Effects` is what a call asks the shell to do.
"""

from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.client_kind import ClientKind
from kohort.coordinator.config import GroupConfig, GroupSettings, MigrationPolicy, Weights
from kohort.coordinator.consumer.loads import PartitionExtent
from kohort.coordinator.effects import Effects, Record, RequestContext, Token
from kohort.coordinator.events import GroupEvent, MemberRefused, TargetRefused
from kohort.coordinator.heartbeat_contents import has_no_news
from kohort.coordinator.prompt import HeldHeartbeat, WaitingRequest
from kohort.coordinator.shard import GroupShard
from kohort.coordinator.timers import HeldHeartbeatsDue, Timer
from kohort.coordinator.topic_metadata import MetadataImage, Topic

__all__ = [
    "ClientKind",
    "Effects",
    "GroupConfig",
    "GroupEvent",
    "GroupSettings",
    "GroupShard",
    "GroupState",
    "HeldHeartbeat",
    "HeldHeartbeatsDue",
    "MemberRefused",
    "MetadataImage",
    "MigrationPolicy",
    "PartitionExtent",
    "Record",
    "RequestContext",
    "TargetRefused",
    "Timer",
    "Token",
    "Topic",
    "WaitingRequest",
    "Weights",
    "has_no_news",
]
