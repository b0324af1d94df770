"""Classic groups: members join together, and a leader computes the assignment.

The room exports the answers to the four requests of the classic protocol, the group with its members
and states, and what happens to a group besides: timers, lost members, new partitions, the load of its
shard and its end. A consumer group that becomes a classic group, or was one, uses the rest. The rules
see the other groups of a shard as `ClassicGroups`.
"""

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.groups import ClassicGroups
from kohort.coordinator.classic.join import JoinAttempt, join_classic_group, out_of_bounds
from kohort.coordinator.classic.join_phase import begin_and_proceed, reject_parked_requests
from kohort.coordinator.classic.loading import resign_classic_group, resume_classic_group
from kohort.coordinator.classic.member import Member, protocols_of
from kohort.coordinator.classic.membership import (
    current_answer,
    heartbeat_in_classic_group,
    leave_classic_group,
    leave_response,
    leaving_members,
    remove_dead_member,
)
from kohort.coordinator.classic.new_partitions import partitions_added
from kohort.coordinator.classic.rebalance import WaitingMember
from kohort.coordinator.classic.records import generation_record, tombstone
from kohort.coordinator.classic.replies import join_refused, sync_refused
from kohort.coordinator.classic.sessions import expect_heartbeat
from kohort.coordinator.classic.states import PREDECESSORS, GroupState
from kohort.coordinator.classic.sync import lacks_protocol, sync_with_classic_group
from kohort.coordinator.classic.timer_firing import classic_timer_expired

__all__ = [
    "PREDECESSORS",
    "ClassicGroup",
    "ClassicGroups",
    "GroupState",
    "JoinAttempt",
    "Member",
    "WaitingMember",
    "begin_and_proceed",
    "classic_timer_expired",
    "current_answer",
    "expect_heartbeat",
    "generation_record",
    "heartbeat_in_classic_group",
    "join_classic_group",
    "join_refused",
    "lacks_protocol",
    "leave_classic_group",
    "leave_response",
    "leaving_members",
    "out_of_bounds",
    "partitions_added",
    "protocols_of",
    "reject_parked_requests",
    "remove_dead_member",
    "resign_classic_group",
    "resume_classic_group",
    "sync_refused",
    "sync_with_classic_group",
    "tombstone",
]
