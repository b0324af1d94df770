"""Consumer groups (KIP-848): the coordinator computes assignments; each member reconciles at its own pace.

The room exports the answers to heartbeats and to the requests of members that use the classic
protocol, the group with its members and states, and what happens to a group besides: timers, lost
members, changes of topics, settings and loads, the load of its shard and its end.
"""

from kohort.coordinator.consumer.classic_members import (
    heartbeat_of_classic_member,
    join_as_classic_member,
    sync_as_classic_member,
)
from kohort.coordinator.consumer.describe import describe_consumer_groups
from kohort.coordinator.consumer.fencing import remove_by_leave_group, remove_members
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.heartbeat import answer_earlier_heartbeat, consumer_heartbeat, quiet_heartbeat
from kohort.coordinator.consumer.loading import resume_consumer_group
from kohort.coordinator.consumer.loads import PartitionExtent, loads_measured, weighed_topics
from kohort.coordinator.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember
from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.coordinator.consumer.reconciling import reconcile
from kohort.coordinator.consumer.records import no_group
from kohort.coordinator.consumer.refresh import acls_changed, settings_changed, topics_changed
from kohort.coordinator.consumer.replay import CONSUMER_GROUP_KEYS, replay_consumer_group
from kohort.coordinator.consumer.states import ConsumerGroupState, MemberState
from kohort.coordinator.consumer.target import chosen_assignor, due_at
from kohort.coordinator.consumer.timer_firing import cancel_consumer_timers, consumer_timer_expired

__all__ = [
    "CONSUMER_GROUP_KEYS",
    "NOTHING",
    "STATIC_LEAVE_EPOCH",
    "ConsumerGroup",
    "ConsumerGroupState",
    "ConsumerMember",
    "MemberState",
    "PartitionExtent",
    "Partitions",
    "acls_changed",
    "answer_earlier_heartbeat",
    "cancel_consumer_timers",
    "chosen_assignor",
    "consumer_heartbeat",
    "consumer_timer_expired",
    "describe_consumer_groups",
    "due_at",
    "heartbeat_of_classic_member",
    "join_as_classic_member",
    "loads_measured",
    "no_group",
    "quiet_heartbeat",
    "reconcile",
    "remove_by_leave_group",
    "remove_members",
    "replay_consumer_group",
    "resume_consumer_group",
    "settings_changed",
    "sync_as_classic_member",
    "topics_changed",
    "weighed_topics",
]
