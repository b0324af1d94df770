"""Handle expired timers of a classic group, and cancel them."""

from typing import assert_never

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.groups import ClassicGroups
from kohort.coordinator.classic.join_phase import initial_rebalance_delay_over, rebalance_timed_out
from kohort.coordinator.classic.membership import pending_member_timed_out, session_timed_out
from kohort.coordinator.classic.new_partitions import new_partitions_check_due
from kohort.coordinator.classic.sync import held_syncs_due, sync_timed_out
from kohort.coordinator.effects import Effects
from kohort.coordinator.timers import (
    ExpressionRefresh,
    GroupTimer,
    HeldSyncsDue,
    InitialRebalanceDelay,
    MemberRebalanceTimeout,
    NewPartitionsCheck,
    NotificationDue,
    PendingMemberTimeout,
    RebalanceTimeout,
    SessionTimeout,
    SyncTimeout,
    TargetDue,
)
from kohort.model import Millis


def classic_timer_expired(
    groups: ClassicGroups, group: ClassicGroup, timer: GroupTimer, now: Millis, out: Effects
) -> None:
    """Handle an expired timer. A timer whose member no longer exists does nothing."""
    match timer:
        case SessionTimeout():
            session_timed_out(groups, group, timer.member_id, now, out)
        case RebalanceTimeout():
            rebalance_timed_out(groups, group, now, out)
        case InitialRebalanceDelay():
            initial_rebalance_delay_over(groups, group, now, out)
        case SyncTimeout():
            sync_timed_out(groups, group, now, out)
        case PendingMemberTimeout():
            pending_member_timed_out(groups, group, timer.member_id, now, out)
        case NotificationDue():
            if groups.prompt is not None:
                groups.prompt.notification_due(group, now, out)
        case HeldSyncsDue():
            held_syncs_due(groups, group, now, out)
        case NewPartitionsCheck():
            new_partitions_check_due(groups, group, now, out)
        case MemberRebalanceTimeout() | ExpressionRefresh() | TargetDue():
            pass  # belongs to an earlier consumer group with this ID
        case _:
            assert_never(timer)


def cancel_timers(group: ClassicGroup, out: Effects) -> None:
    """Cancel all timers that the group and its members may have."""
    group_id = group.group_id
    for timer in (
        InitialRebalanceDelay(group_id),
        RebalanceTimeout(group_id),
        SyncTimeout(group_id),
        NotificationDue(group_id),
        HeldSyncsDue(group_id),
        NewPartitionsCheck(group_id),
    ):
        out.timers[timer] = None
    for member_id in group.members:
        out.timers[SessionTimeout(group_id, member_id)] = None
    for member_id in group.pending:
        out.timers[PendingMemberTimeout(group_id, member_id)] = None
