"""A classic group makes way when a member of the consumer protocol joins: an empty one, or one that was upgraded."""

from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.migration import write_upgraded
from kohort.coordinator.effects import Effects
from kohort.coordinator.groups import Groups
from kohort.coordinator.records import tombstone
from kohort.coordinator.replies import join_refused, sync_refused
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
        _turn_away(groups, classic, replaced, out)
    groups.adopt(group)
    if group.members:
        groups.list_topics(group, group.topics.counts.keys())
        write_upgraded(group, now, out)
    return classic is not None and classic.is_in(GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)


def _turn_away(groups: Groups, classic: ClassicGroup, replaced: str | None, out: Effects) -> None:
    """Whoever waits in a rebalance of the classic group is to join again, and is answered by the consumer group.

    But not who was replaced: two processes with one instance id would take it from each other for ever.
    """

    def code(member_id: str) -> ErrorCode:
        return ErrorCode.FENCED_INSTANCE_ID if member_id == replaced else ErrorCode.REBALANCE_IN_PROGRESS

    for member_id, parked in classic.rebalance.joining.items():
        groups.answer(parked, join_refused(code(member_id), member_id, parked.api_version), out)
    for member_id, parked in classic.rebalance.syncing.items():
        groups.answer(parked, sync_refused(code(member_id)), out)
