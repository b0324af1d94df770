"""Resume consumer groups after their log was loaded: restart sessions and timers, and remove damaged members.

A damaged disk may have lost a batch in the middle of the log, and its group may be inconsistent.
Members with missing records, or with partitions that other members claim too, are removed. They
rejoin with epoch 0 and a full request.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Set
from itertools import chain

from kohort.coordinator.consumer.epochs import bump_if_topics_changed
from kohort.coordinator.consumer.fencing import remove_members
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.partitions import Partitions
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.effects import Effects
from kohort.coordinator.timers import ExpressionRefresh, MemberRebalanceTimeout, SessionTimeout
from kohort.coordinator.topic_metadata import UNKNOWN
from kohort.group_events import Cause, RebalanceReason
from kohort.model import UUID, Millis


def resume_consumer_group(groups: ConsumerGroups, group: ConsumerGroup, now: Millis, out: Effects) -> None:
    """Give every member a full session and a full rebalance timeout. Topics may have changed since."""
    session_timeout_ms = groups.settings(group.group_id).session_timeout_ms
    for member in group.members.values():
        classic = member.classic
        deadline = now + (session_timeout_ms if classic is None else classic.session_timeout_ms)
        member.session_deadline = deadline
        out.timers[SessionTimeout(group.group_id, member.member_id)] = member.next_check_at(now)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            timer = MemberRebalanceTimeout(group.group_id, member.member_id)
            out.timers[timer] = now + max(member.rebalance_timeout_ms, 0)
    lost = _inconsistent_members(group)
    if lost:
        why = RebalanceReason(Cause.RECORDS_LOST, lost[0].member_id, "the log lost records of the group")
        # Removing the members writes the next epoch, which must be higher than any recorded epoch.
        group.epoch = max(group.epoch, group.target_epoch, *(member.epoch for member in lost))
        remove_members(groups, group, lost, why, now, out)
    elif groups.metadata is not UNKNOWN:
        bump_if_topics_changed(groups, group, out)
    if groups.metadata is not UNKNOWN and group.topics.expressions and len(lost) < len(group.members):
        out.timers[ExpressionRefresh(group.group_id)] = now


def _inconsistent_members(group: ConsumerGroup) -> list[ConsumerMember]:
    """Return the members whose records are inconsistent."""
    members = group.members.values()
    newest = min(group.epoch, group.target_epoch)
    lost = {
        member.member_id: member
        for member in members
        if member.epoch > newest or group.target_epoch > group.epoch or member.rebalance_timeout_ms < 0
    }
    lost |= _members_with_shared_partitions(
        group, ((member.member_id, member.assigned | member.revoking) for member in members)
    )
    lost |= _members_with_shared_partitions(group, group.targets.items())
    return list(lost.values())


def _members_with_shared_partitions(
    group: ConsumerGroup, claims: Iterable[tuple[str, Partitions]]
) -> dict[str, ConsumerMember]:
    """Return the members that claim a partition that another member claims too, by member ID."""
    by_topic: defaultdict[UUID, list[tuple[str, Set[int]]]] = defaultdict(list)
    for member_id, claimed in claims:
        for topic_id, partitions in claimed.by_topic.items():
            by_topic[topic_id].append((member_id, partitions))
    found: dict[str, ConsumerMember] = {}
    for claimants in by_topic.values():
        times = Counter(chain.from_iterable(partitions for _, partitions in claimants))
        if len(times) < sum(len(partitions) for _, partitions in claimants):
            for member_id, partitions in claimants:
                if member_id in group.members and any(times[number] > 1 for number in partitions):
                    found[member_id] = group.members[member_id]
    return found
