"""The group epoch: it rises when the target assignment has to be computed anew."""

from collections.abc import Mapping

from kohort.coordinator.consumer import records
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.effects import Effects
from kohort.coordinator.events import Cause, GroupEpochBumped, Why
from kohort.coordinator.groups import Groups


def bump(groups: Groups, group: ConsumerGroup, why: Why, out: Effects, changes: Mapping[str, int] | None = None) -> int:
    """Write the next group epoch, and return it.

    `changes` says how many more subscriptions come to each topic by what `out` is about to write.
    """
    digest = group.topics.digest_after(groups.metadata, changes or {})
    epoch = group.epoch + 1
    out.records.append(records.group_epoch(group.group_id, epoch, digest))
    if group.has_partition_metadata:
        out.records.append(records.no_partition_metadata(group.group_id))
    out.events.append(GroupEpochBumped(group.group_id, epoch, why.cause, why.member_id, why.reason))
    return epoch


def bump_if_topics_changed(groups: Groups, group: ConsumerGroup, out: Effects) -> None:
    """Write the next group epoch if the subscribed topics are no longer what they were at this one.

    A group without members takes note of it when somebody joins.
    """
    if group.members and group.topics.digest(groups.metadata) != group.metadata_hash:
        bump(groups, group, Why(Cause.TOPICS_CHANGED), out)
