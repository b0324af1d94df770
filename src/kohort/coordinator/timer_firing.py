"""Handle expired timers, and cancel the timers of a group."""

from typing import assert_never

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.join_phase import initial_rebalance_delay_over, rebalance_timed_out
from kohort.coordinator.classic.membership import pending_member_timed_out, session_timed_out
from kohort.coordinator.classic.new_partitions import new_partitions_check_due
from kohort.coordinator.classic.sync import held_syncs_due, sync_timed_out
from kohort.coordinator.consumer.fencing import rebalance_timed_out as member_rebalance_timed_out
from kohort.coordinator.consumer.fencing import session_timed_out as consumer_session_timed_out
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.subscribing import refresh
from kohort.coordinator.effects import Effects
from kohort.coordinator.groups import Groups
from kohort.coordinator.offsets import expire
from kohort.coordinator.timers import (
    ExpressionRefresh,
    GroupTimer,
    HeldHeartbeatsDue,
    HeldSyncsDue,
    InitialRebalanceDelay,
    MemberRebalanceTimeout,
    NewPartitionsCheck,
    NotificationDue,
    OffsetExpiry,
    PendingMemberTimeout,
    RebalanceTimeout,
    SessionTimeout,
    SyncTimeout,
    TargetDue,
    Timer,
)
from kohort.model import Millis


def fire(groups: Groups, timer: Timer, now: Millis, out: Effects) -> None:
    """Handle an expired timer. A timer whose group or member no longer exists does nothing."""
    if isinstance(timer, OffsetExpiry):
        expire(groups, now, out)
    elif isinstance(timer, HeldHeartbeatsDue):
        if groups.prompt is not None:
            groups.prompt.holds_due(now, out)
    else:
        match groups.get(timer.group_id):
            case ClassicGroup() as group:
                _fire_of_classic_group(groups, timer, group, now, out)
            case ConsumerGroup() as group:
                _fire_of_consumer_group(groups, timer, group, now, out)


def _fire_of_classic_group(groups: Groups, timer: GroupTimer, group: ClassicGroup, now: Millis, out: Effects) -> None:
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


def _fire_of_consumer_group(groups: Groups, timer: GroupTimer, group: ConsumerGroup, now: Millis, out: Effects) -> None:
    match timer:
        case SessionTimeout():
            consumer_session_timed_out(groups, group, timer.member_id, now, out)
        case MemberRebalanceTimeout():
            member_rebalance_timed_out(groups, group, timer.member_id, now, out)
        case ExpressionRefresh():
            refresh(groups, group, now, out)
        case TargetDue():
            if groups.prompt is not None:
                groups.prompt.news_for_group(group.group_id)
        case _:
            pass  # belongs to an earlier classic group with this ID


def cancel_timers(group: ClassicGroup, out: Effects) -> None:
    """Cancel all timers that a classic group and its members may have."""
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


def cancel_timers_of_consumer_group(group: ConsumerGroup, out: Effects) -> None:
    """Cancel all timers that a consumer group and its members may have."""
    out.timers[ExpressionRefresh(group.group_id)] = out.timers[TargetDue(group.group_id)] = None
    for member_id in group.members:
        out.timers[SessionTimeout(group.group_id, member_id)] = None
        out.timers[MemberRebalanceTimeout(group.group_id, member_id)] = None
