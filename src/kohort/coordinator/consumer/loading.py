"""A consumer group whose log was just read: what only a living coordinator knows begins anew."""

from kohort.coordinator.consumer.epochs import bump_if_topics_changed
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.metadata import UNKNOWN
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.effects import Effects
from kohort.coordinator.groups import Groups
from kohort.coordinator.timers import ExpressionRefresh, MemberRebalanceTimeout, SessionTimeout
from kohort.model import Millis


def resume(groups: Groups, group: ConsumerGroup, now: Millis, out: Effects) -> None:
    """Give every member a whole session, and a whole rebalance timeout; topics may have changed meanwhile."""
    session_timeout_ms = groups.settings(group.group_id).session_timeout_ms
    for member in group.members.values():
        classic = member.classic
        deadline = now + (session_timeout_ms if classic is None else classic.session_timeout_ms)
        member.session_deadline = deadline
        out.timers[SessionTimeout(group.group_id, member.member_id)] = member.look_again_at(now)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            timer = MemberRebalanceTimeout(group.group_id, member.member_id)
            out.timers[timer] = now + max(member.rebalance_timeout_ms, 0)
    if groups.metadata is not UNKNOWN:
        bump_if_topics_changed(groups, group, out)
        if group.topics.expressions:
            out.timers[ExpressionRefresh(group.group_id)] = now
