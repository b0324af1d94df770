"""Decide when a new target assignment is computed, by which assignor, and write its changes."""

from collections import Counter
from collections.abc import Mapping

from kohort.assignor.server import Target
from kohort.coordinator.consumer import records
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.coordinator.consumer.planning import UpdatedMember
from kohort.coordinator.effects import Effects
from kohort.errors import AssignorError
from kohort.group_events import Refused, TargetRefused
from kohort.model import Millis


def update_target(
    groups: ConsumerGroups, group: ConsumerGroup, epoch: int, updated: UpdatedMember | None, now: Millis, out: Effects
) -> Mapping[str, Partitions] | None:
    """Compute and write the target for a group epoch, which may be one that `out` is about to write.

    Returns the targets that change, by member ID. Returns None if the last target stays in effect:
    it is current, the interval since it is not over (KIP-1263), a member is to compute the new one,
    or the assignor failed.
    """
    if group.target_epoch >= epoch or not is_due(groups, group, now):
        return None
    weights = groups.settings(group.group_id).weights
    if group.computing.waits(group, epoch, updated, weights, now):
        return None
    before = None if updated is None else group.members.get(updated.replaces or updated.member.member_id)
    name = chosen_assignor(
        groups,
        group,
        None if before is None else before.server_assignor,
        None if updated is None else updated.member.server_assignor,
    )
    try:
        changed = group.planning.update(group, groups.assignors[name], groups.metadata, updated, weights)
    except AssignorError as problem:
        # The assignor is user-defined. The members keep their partitions, and it is called again
        # after the interval.
        if group.planning.failed(str(problem), now):
            out.events.append(TargetRefused(group.group_id, epoch, Refused(name, None, str(problem))))
        return None
    group.computing.server_computed()
    return write_target(groups, group, epoch, changed, now, out)


def write_target(
    groups: ConsumerGroups, group: ConsumerGroup, epoch: int, changed: Mapping[str, Target], now: Millis, out: Effects
) -> Mapping[str, Partitions]:
    """Write the changes of the target at a group epoch; return the changed targets by member ID."""
    targets = {
        member_id: Partitions(by_topic) if by_topic else NOTHING for member_id, by_topic in sorted(changed.items())
    }
    group.note_new_targets(targets)
    group.targets_to_write = targets
    out.records += [records.target(group.group_id, member_id, target) for member_id, target in targets.items()]
    out.records.append(records.target_epoch(group.group_id, epoch, now))
    if now > group.target_at + groups.settings(group.group_id).assignment_interval_ms:
        group.planning.series_began_at = now
    return targets


def chosen_assignor(
    groups: ConsumerGroups, group: ConsumerGroup, before: str | None = None, after: str | None = None
) -> str:
    """Return the name of the group's server assignor, after one member requests `after` instead of `before`.

    The group's own setting takes precedence, then the assignor that most members request. Ties go
    to the assignor that the broker lists first.
    """
    configured = groups.settings(group.group_id).assignor
    if configured is not None and configured in groups.assignors:
        return configured
    votes: Mapping[str, int] = group.assignors
    if before != after:
        votes = Counter(votes)
        votes.subtract([name for name in (before,) if name is not None])
        votes.update([name for name in (after,) if name is not None])
    return max(groups.assignors, key=lambda name: votes.get(name, 0))


def is_due(groups: ConsumerGroups, group: ConsumerGroup, now: Millis) -> bool:
    """Return whether the interval since the last target is over.

    A target with a future time was computed by a broker whose clock was ahead. That time is not
    awaited.
    """
    return now >= due_at(groups, group) or now < group.target_at


def due_at(groups: ConsumerGroups, group: ConsumerGroup) -> Millis:
    """Return the time from which the next target may be computed.

    If heartbeats are held, the interval is shorter; see `PromptHeartbeats.assignment_interval_ms`.
    """
    since = max(group.target_at, group.planning.failed_at)
    interval = groups.settings(group.group_id).assignment_interval_ms
    if since == 0 or interval == 0:
        return 0
    if groups.prompt is not None and since == group.target_at:
        interval = groups.prompt.assignment_interval_ms(interval, since - group.planning.series_began_at)
    return since + interval
