"""When a new target assignment is computed, by which assignor, and what of it is written."""

from collections import Counter
from collections.abc import Mapping

from kohort.assignor.server import Target
from kohort.coordinator.consumer import records
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.coordinator.consumer.planning import Coming
from kohort.coordinator.effects import Effects
from kohort.coordinator.events import Refused, TargetRefused
from kohort.coordinator.groups import Groups
from kohort.errors import AssignorError
from kohort.model import Millis

_LEAST_WAIT: Millis = 20
"""Members that are started by one command join within so much time."""


def update_target(
    groups: Groups, group: ConsumerGroup, epoch: int, coming: Coming | None, now: Millis, out: Effects
) -> Mapping[str, Partitions] | None:
    """Compute the target for a group epoch that `out` may only be about to write, and write it.

    Returns the targets that change, by member id; None where the last target counts on: it is new enough, the interval
    since it is not over (KIP-1263), a member is to compute it, or the assignor failed.
    """
    if group.target_epoch >= epoch or not is_due(groups, group, now):
        return None
    weights = groups.settings(group.group_id).weights
    if group.computing.waits(group, epoch, coming, weights, now):
        return None
    before = None if coming is None else group.members.get(coming.replaces or coming.member.member_id)
    name = chosen_assignor(
        groups,
        group,
        None if before is None else before.server_assignor,
        None if coming is None else coming.member.server_assignor,
    )
    try:
        changed = group.planning.update(group, groups.assignors[name], groups.metadata, coming, weights)
    except AssignorError as problem:
        # A user's. The members go on with what they have, and it is asked again after the interval.
        if group.planning.failed(str(problem), now):
            out.events.append(TargetRefused(group.group_id, epoch, Refused(name, None, str(problem))))
        return None
    group.computing.server_computed()
    return write_target(groups, group, epoch, changed, now, out)


def write_target(
    groups: Groups, group: ConsumerGroup, epoch: int, changed: Mapping[str, Target], now: Millis, out: Effects
) -> Mapping[str, Partitions]:
    """Write what changes in the target at a group epoch; returns the targets that change, by member id."""
    targets = {
        member_id: Partitions(by_topic) if by_topic else NOTHING for member_id, by_topic in sorted(changed.items())
    }
    group.concern(targets)
    group.made = targets
    out.records += [records.target(group.group_id, member_id, target) for member_id, target in targets.items()]
    out.records.append(records.target_epoch(group.group_id, epoch, now))
    if now > group.target_at + groups.settings(group.group_id).assignment_interval_ms:
        group.planning.crowd_since = now
    return targets


def chosen_assignor(groups: Groups, group: ConsumerGroup, before: str | None = None, after: str | None = None) -> str:
    """The name of the assignor that computes for the group, once one member asks for `after` instead of `before`.

    The group's own setting, else what most members ask for; of equals the one that the broker names first.
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


def is_due(groups: Groups, group: ConsumerGroup, now: Millis) -> bool:
    """Whether the interval since the last target is over.

    A target of the future was computed by a broker whose clock was ahead; nobody waits for that time to come.
    """
    return now >= due_at(groups, group) or now < group.target_at


def due_at(groups: Groups, group: ConsumerGroup) -> Millis:
    """When the next target may be computed.

    Where heartbeats are held, members hear of a target at once, and the interval would be most of what they wait for.
    It is there for changes that come in crowds: so a target waits at most for as long as changes have been coming.
    """
    since = max(group.target_at, group.planning.failed_at)
    interval = groups.settings(group.group_id).assignment_interval_ms
    if since == 0 or interval == 0:
        return 0
    if groups.config.heartbeat_hold_ms and since == group.target_at:
        interval = min(interval, max(_LEAST_WAIT, since - group.planning.crowd_since))
    return since + interval
