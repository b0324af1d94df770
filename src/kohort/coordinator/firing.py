"""What a timer does whose time has come, and which timers a group may have."""

from typing import assert_never

from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.collecting import collecting_ended
from kohort.coordinator.consumer.fencing import rebalance_timed_out as member_rebalance_timed_out
from kohort.coordinator.consumer.fencing import session_timed_out as consumer_session_timed_out
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.subscribing import refresh
from kohort.coordinator.effects import Effects
from kohort.coordinator.expiry import expire
from kohort.coordinator.groups import Groups
from kohort.coordinator.growing import growth_due
from kohort.coordinator.join_phase import initial_delay_passed, rebalance_timed_out
from kohort.coordinator.membership import pending_member_timed_out, session_timed_out
from kohort.coordinator.releasing import end_holds
from kohort.coordinator.sync import held_syncs_end, sync_timed_out
from kohort.coordinator.timers import (
    CollectingEnds,
    ExpressionRefresh,
    GroupTimer,
    GrowthDue,
    HoldsEnd,
    InitialDelay,
    MemberRebalanceTimeout,
    OffsetExpiry,
    PendingMemberTimeout,
    RebalanceTimeout,
    SessionTimeout,
    SyncsHeldEnd,
    SyncTimeout,
    TargetDue,
    Timer,
)
from kohort.model import Millis


def fire(groups: Groups, timer: Timer, now: Millis, out: Effects) -> None:
    """Take a timer. One for what is gone meanwhile does nothing."""
    if isinstance(timer, OffsetExpiry):
        expire(groups, now, out)
    elif isinstance(timer, HoldsEnd):
        end_holds(groups, now, out)
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
        case InitialDelay():
            initial_delay_passed(groups, group, now, out)
        case SyncTimeout():
            sync_timed_out(groups, group, now, out)
        case PendingMemberTimeout():
            pending_member_timed_out(groups, group, timer.member_id, now, out)
        case CollectingEnds():
            collecting_ended(groups, group, now, out)
        case SyncsHeldEnd():
            held_syncs_end(groups, group, now, out)
        case GrowthDue():
            growth_due(groups, group, now, out)
        case MemberRebalanceTimeout() | ExpressionRefresh() | TargetDue():
            pass  # of a consumer group that had this id before
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
            groups.holds.stir(group.group_id)
        case _:
            pass  # of a classic group that had this id before


def cancel_timers(group: ClassicGroup, out: Effects) -> None:
    """All that a classic group may have."""
    group_id = group.group_id
    for timer in (
        InitialDelay(group_id),
        RebalanceTimeout(group_id),
        SyncTimeout(group_id),
        CollectingEnds(group_id),
        SyncsHeldEnd(group_id),
        GrowthDue(group_id),
    ):
        out.timers[timer] = None
    for member_id in group.members:
        out.timers[SessionTimeout(group_id, member_id)] = None
    for member_id in group.pending:
        out.timers[PendingMemberTimeout(group_id, member_id)] = None


def cancel_timers_of_consumer_group(group: ConsumerGroup, out: Effects) -> None:
    """All that a consumer group and its members may have."""
    out.timers[ExpressionRefresh(group.group_id)] = out.timers[TargetDue(group.group_id)] = None
    for member_id in group.members:
        out.timers[SessionTimeout(group.group_id, member_id)] = None
        out.timers[MemberRebalanceTimeout(group.group_id, member_id)] = None
