"""The group coordinator: a state machine without I/O and without a clock.

`GroupShard` is one partition of `__consumer_offsets`. `Effects` is what a call asks the shell to do:
records, replies and timers, and the events for the recorder (`kohort.group_events`). The groups
themselves are in the rooms `classic` and `consumer`.
"""

from kohort.coordinator.classic import ClassicGroup, GroupState
from kohort.coordinator.client_kind import ClientKind
from kohort.coordinator.config import GroupConfig, GroupSettings, MigrationPolicy, Weights
from kohort.coordinator.consumer import ConsumerGroup, PartitionExtent
from kohort.coordinator.disconnects import (
    INFERRED_GRACE,
    SHORT_GRACE,
    inferred_grace_ms,
    shortened_grace_ms,
    told_grace_ms,
)
from kohort.coordinator.effects import Effects, RequestContext, Token, Viewer
from kohort.coordinator.groups import Group
from kohort.coordinator.heartbeat_contents import has_no_news, reports_nothing
from kohort.coordinator.prompt import HeldHeartbeat, WaitingRequest
from kohort.coordinator.shard import GroupShard
from kohort.coordinator.subscriptions import (
    are_cooperative,
    assigned_partitions,
    is_eager_assignor,
    members_giving_up,
    owned_partitions,
    subscription_change,
)
from kohort.coordinator.timers import (
    HeldHeartbeatsDue,
    HeldSyncsDue,
    InitialRebalanceDelay,
    NotificationDue,
    OffsetExpiry,
    RebalanceTimeout,
    SessionTimeout,
    SyncTimeout,
    Timer,
)
from kohort.coordinator.topic_metadata import MetadataImage, Topic
from kohort.wire.group_log import GroupRecord, Record

__all__ = [
    "INFERRED_GRACE",
    "SHORT_GRACE",
    "ClassicGroup",
    "ClientKind",
    "ConsumerGroup",
    "Effects",
    "Group",
    "GroupConfig",
    "GroupRecord",
    "GroupSettings",
    "GroupShard",
    "GroupState",
    "HeldHeartbeat",
    "HeldHeartbeatsDue",
    "HeldSyncsDue",
    "InitialRebalanceDelay",
    "MetadataImage",
    "MigrationPolicy",
    "NotificationDue",
    "OffsetExpiry",
    "PartitionExtent",
    "RebalanceTimeout",
    "Record",
    "RequestContext",
    "SessionTimeout",
    "SyncTimeout",
    "Timer",
    "Token",
    "Topic",
    "Viewer",
    "WaitingRequest",
    "Weights",
    "are_cooperative",
    "assigned_partitions",
    "has_no_news",
    "inferred_grace_ms",
    "is_eager_assignor",
    "members_giving_up",
    "owned_partitions",
    "reports_nothing",
    "shortened_grace_ms",
    "subscription_change",
    "told_grace_ms",
]
