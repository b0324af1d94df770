"""Replace a classic group with a consumer group, empty or upgraded, when a consumer-protocol member joins."""

from collections.abc import Callable

from kohort.coordinator.classic import ClassicGroup, GroupState, reject_parked_requests, tombstone
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.migration import write_upgraded
from kohort.coordinator.effects import Effects
from kohort.coordinator.subscriptions import CONSUMER, assigned_partitions
from kohort.coordinator.timers import InitialRebalanceDelay, PendingMemberTimeout, RebalanceTimeout, SyncTimeout
from kohort.errors import ErrorCode
from kohort.model import Millis


def replace_classic_group(
    groups: ConsumerGroups, group: ConsumerGroup, replaced: str | None, now: Millis, out: Effects
) -> bool:
    """Register a new consumer group, in place of the classic group if there is one.

    `replaced` is the member whose instance ID the joining member took over. Returns whether the
    group needs a new target: this interrupted a rebalance of the classic group, a subscribed topic
    has partitions that the classic group did not assign yet, or a member must be told that it lost
    some.
    """
    group_id = group.group_id
    if groups.get(group_id) is group:
        return False
    classic = groups.classic(group_id)
    if classic is not None:
        if classic.stored is not None:
            out.records.append(tombstone(classic))
        for timer in (InitialRebalanceDelay(group_id), RebalanceTimeout(group_id), SyncTimeout(group_id)):
            out.timers[timer] = None
        for member_id in classic.pending:
            out.timers[PendingMemberTimeout(group_id, member_id)] = None

        # The waiting members rejoin and get their answers from the consumer group. Kafka answers
        # joins with REBALANCE_IN_PROGRESS, too, which librdkafka passes to the application as an
        # error, and aiokafka raises. Every client rejoins after NOT_COORDINATOR. A replaced member
        # must not rejoin: two processes with one instance ID would fence each other forever.
        def code(again: ErrorCode) -> Callable[[str], ErrorCode]:
            return lambda member_id: ErrorCode.FENCED_INSTANCE_ID if member_id == replaced else again

        join_code, sync_code = code(ErrorCode.NOT_COORDINATOR), code(ErrorCode.REBALANCE_IN_PROGRESS)
        reject_parked_requests(groups, classic, join_code, sync_code, out)
    groups.adopt(group)
    if group.members:
        groups.list_topics(group, group.topics.counts.keys())
        write_upgraded(group, now, out)
    return _has_unassigned_partitions(groups, group) or (
        classic is not None
        and (
            classic.is_in(GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)
            or _has_lost_partitions(group, classic, replaced)
        )
    )


def _has_unassigned_partitions(groups: ConsumerGroups, group: ConsumerGroup) -> bool:
    """Return whether the upgraded group's targets lack partitions.

    This happens if a topic grew while the group's broker was away.
    """
    by_name = groups.metadata.by_name
    topics = [by_name[name] for name in group.topics.counts if name in by_name]
    shared = sum(len(numbers) for target in group.targets.values() for numbers in target.by_topic.values())
    return shared < sum(topic.shape.partitions for topic in topics)


def _has_lost_partitions(group: ConsumerGroup, classic: ClassicGroup, replaced: str | None) -> bool:
    """Return whether a classic member that stays was assigned more than the upgraded group counts as its own.

    A topic was created again with fewer partitions, or an assignor gave a partition to two members.
    The member asks for its assignment only after a new target. Kafka lets it keep the partitions.
    """
    return any(
        member_id != replaced
        and len(assigned_partitions(CONSUMER, member.assignment)) > len(group.target_of(member_id))
        for member_id, member in classic.members.items()
    )
