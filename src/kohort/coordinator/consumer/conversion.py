"""A classic group makes way when a member of the consumer protocol joins: an empty one, or one that was upgraded."""

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.migration import write_upgraded
from kohort.coordinator.effects import Effects
from kohort.coordinator.groups import Groups
from kohort.coordinator.join_phase import turn_away
from kohort.coordinator.records import tombstone
from kohort.coordinator.states import GroupState
from kohort.coordinator.timers import InitialDelay, PendingMemberTimeout, RebalanceTimeout, SyncTimeout
from kohort.errors import ErrorCode
from kohort.model import Millis


def admit(groups: Groups, group: ConsumerGroup, replaced: str | None, now: Millis, out: Effects) -> bool:
    """Have a new consumer group among the groups, in the place of a classic one if there is one.

    `replaced` is the member whose instance id the newcomer has taken over. Returns whether the classic group was in a
    rebalance, which ends here: what it was about needs a new target.
    """
    group_id = group.group_id
    if groups.get(group_id) is group:
        return False
    classic = groups.classic(group_id)
    if classic is not None:
        if classic.stored is not None:
            out.records.append(tombstone(classic))
        for timer in (InitialDelay(group_id), RebalanceTimeout(group_id), SyncTimeout(group_id)):
            out.timers[timer] = None
        for member_id in classic.pending:
            out.timers[PendingMemberTimeout(group_id, member_id)] = None
        # They join again, and are answered by the consumer group. But not who was replaced: two processes with one
        # instance id would take it from each other for ever.
        fenced, again = ErrorCode.FENCED_INSTANCE_ID, ErrorCode.REBALANCE_IN_PROGRESS
        turn_away(groups, classic, lambda member_id: fenced if member_id == replaced else again, out)
    groups.adopt(group)
    if group.members:
        groups.list_topics(group, group.topics.counts.keys())
        write_upgraded(group, now, out)
    return classic is not None and classic.is_in(GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)
