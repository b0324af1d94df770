"""Expiry of offsets: offsets.retention.minutes after they are no longer needed (KIP-211, KIP-496)."""

from collections.abc import Callable

from kohort.coordinator.classic import ClassicGroup, GroupState
from kohort.coordinator.consumer import ConsumerGroup
from kohort.coordinator.effects import Effects
from kohort.coordinator.groups import Group, Groups
from kohort.coordinator.offsets.deletion import deletion_records
from kohort.coordinator.subscriptions import CONSUMER
from kohort.coordinator.timers import OffsetExpiry
from kohort.model import Millis
from kohort.wire.group_log import CommittedOffset, Record


def expire(groups: Groups, now: Millis, out: Effects) -> None:
    """Write tombstones for all expired offsets, and for groups without members that have no offsets left."""
    for group in groups.by_id.values():
        is_needed = _needs_offsets(group)
        expired = [
            committed
            for topic, stored in group.offsets.items()
            if not is_needed(topic)
            for committed in stored.values()
            if _has_expired(group, committed, groups.config.offsets_retention_ms, now)
            and not _is_pending(groups, committed)
        ]
        out.records += [Record(committed.key, None) for committed in expired]
        left = sum(map(len, group.offsets.values())) - len(expired)
        if not left and _has_no_members(group) and not groups.pending.has_group(group.group_id):
            out.records += deletion_records(group)
    out.timers[OffsetExpiry()] = now + groups.config.offsets_retention_check_interval_ms


def _is_pending(groups: Groups, committed: CommittedOffset) -> bool:
    """Return whether an open transaction replaces the offset. Its tombstone would delete the new one, too."""
    return bool(groups.pending) and groups.pending.is_open(committed.group, committed.topic, committed.partition)


def _has_no_members(group: Group) -> bool:
    if isinstance(group, ConsumerGroup):
        return not group.members
    return group.state is GroupState.EMPTY and not group.pending


def _needs_offsets(group: Group) -> Callable[[str], bool]:
    """Return a predicate for topics whose offsets the group may still need.

    During a rebalance it holds for every topic: otherwise members that are about to rejoin would find
    their offsets deleted (KAFKA-13636).
    """
    if isinstance(group, ConsumerGroup):
        return group.is_subscribed
    if group.state is GroupState.EMPTY:
        return lambda topic: False
    if group.state is not GroupState.STABLE or group.protocol_type != CONSUMER:
        return lambda topic: True
    return group.is_subscribed()


def _has_expired(group: Group, committed: CommittedOffset, retention_ms: Millis, now: Millis) -> bool:
    if committed.expire_timestamp >= 0:
        return now >= committed.expire_timestamp
    unwanted_since = committed.commit_timestamp
    if (
        isinstance(group, ClassicGroup)
        and group.protocol_type is not None
        and group.state is GroupState.EMPTY
        and group.empty_since is not None
    ):
        unwanted_since = group.empty_since
    return now - unwanted_since >= retention_ms
