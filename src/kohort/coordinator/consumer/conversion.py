"""A classic group without members makes way when a member of the consumer protocol joins."""

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.effects import Effects
from kohort.coordinator.groups import Groups
from kohort.coordinator.records import tombstone
from kohort.coordinator.timers import InitialDelay, PendingMemberTimeout, RebalanceTimeout, SyncTimeout


def admit(groups: Groups, group: ConsumerGroup, out: Effects) -> None:
    """Have a new consumer group among the groups, in the place of an empty classic one if there is one."""
    group_id = group.group_id
    if groups.get(group_id) is group:
        return
    classic = groups.classic(group_id)
    if classic is not None:
        if classic.stored is not None:
            out.records.append(tombstone(classic))
        for timer in (InitialDelay(group_id), RebalanceTimeout(group_id), SyncTimeout(group_id)):
            out.timers[timer] = None
        for member_id in classic.pending:
            out.timers[PendingMemberTimeout(group_id, member_id)] = None
    groups.adopt(group)
