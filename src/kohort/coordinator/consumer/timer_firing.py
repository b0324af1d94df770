"""Handle expired timers of a consumer group, and cancel them."""

from kohort.coordinator.consumer.fencing import rebalance_timed_out, session_timed_out
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.subscribing import refresh
from kohort.coordinator.effects import Effects
from kohort.coordinator.timers import (
    ExpressionRefresh,
    GroupTimer,
    MemberRebalanceTimeout,
    SessionTimeout,
    TargetDue,
)
from kohort.model import Millis


def consumer_timer_expired(
    groups: ConsumerGroups, group: ConsumerGroup, timer: GroupTimer, now: Millis, out: Effects
) -> None:
    """Handle an expired timer. A timer whose member no longer exists does nothing."""
    match timer:
        case SessionTimeout():
            session_timed_out(groups, group, timer.member_id, now, out)
        case MemberRebalanceTimeout():
            rebalance_timed_out(groups, group, timer.member_id, now, out)
        case ExpressionRefresh():
            refresh(groups, group, now, out)
        case TargetDue():
            if groups.prompt is not None:
                groups.prompt.news_for_group(group.group_id)
        case _:
            pass  # belongs to an earlier classic group with this ID


def cancel_consumer_timers(group: ConsumerGroup, out: Effects) -> None:
    """Cancel all timers that the group and its members may have."""
    out.timers[ExpressionRefresh(group.group_id)] = out.timers[TargetDue(group.group_id)] = None
    for member_id in group.members:
        out.timers[SessionTimeout(group.group_id, member_id)] = None
        out.timers[MemberRebalanceTimeout(group.group_id, member_id)] = None
