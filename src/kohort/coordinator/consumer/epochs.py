"""The group epoch. It increases when the target assignment must be recomputed."""

from collections.abc import Mapping

from kohort.coordinator.consumer import records
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.effects import Effects
from kohort.group_events import Cause, GroupEpochBumped, RebalanceReason


def bump(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    why: RebalanceReason,
    out: Effects,
    changes: Mapping[str, int] | None = None,
) -> int:
    """Write the next group epoch, and return it.

    `changes` gives, for each topic, by how many the records that `out` is about to hold change its
    number of subscriptions.
    """
    digest = group.topics.digest_after(groups.metadata, changes or {})
    epoch = group.epoch + 1
    out.records.append(records.group_epoch(group.group_id, epoch, digest))
    if group.has_partition_metadata:
        out.records.append(records.no_partition_metadata(group.group_id))
    out.events.append(GroupEpochBumped(group.group_id, epoch, why.cause, why.member_id, why.reason))
    return epoch


def bump_if_topics_changed(groups: ConsumerGroups, group: ConsumerGroup, out: Effects) -> None:
    """Write the next group epoch if the subscribed topics changed since the current one.

    A group without members detects the change when a member joins.
    """
    if group.members and group.topics.digest(groups.metadata) != group.metadata_hash:
        bump(groups, group, RebalanceReason(Cause.TOPICS_CHANGED), out)
