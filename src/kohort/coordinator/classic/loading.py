"""Resume classic groups after their log was loaded, and resign from them when their shard ends."""

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.groups import ClassicGroups
from kohort.coordinator.classic.join_phase import begin_and_proceed, reject_parked_requests
from kohort.coordinator.classic.sessions import expect_heartbeat
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.classic.timer_firing import cancel_timers
from kohort.coordinator.effects import Effects
from kohort.errors import ErrorCode
from kohort.group_events import Cause, RebalanceReason
from kohort.model import Millis


def resume_classic_group(groups: ClassicGroups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """Give every member a full session. A group that may not stay as it was stored begins a rebalance."""
    for member in group.members.values():
        expect_heartbeat(groups, group, member, now, out)
    if len(group.members) > groups.config.max_size:
        begin_and_proceed(groups, group, RebalanceReason(Cause.GROUP_TOO_LARGE), now, out)
    elif group.members and group.leader_id is None:
        # The group was converted from a consumer group, and the broker stopped before its members rejoined.
        begin_and_proceed(groups, group, RebalanceReason(Cause.MEMBER_LEFT), now, out)


def resign_classic_group(groups: ClassicGroups, group: ClassicGroup, out: Effects) -> None:
    """End the group here: waiting requests get NOT_COORDINATOR."""

    def code(member_id: str) -> ErrorCode:
        return ErrorCode.NOT_COORDINATOR

    reject_parked_requests(groups, group, code, code, out)
    cancel_timers(group, out)
    group.transition_to(GroupState.DEAD)
