"""Loads of partitions, for groups whose assignor weighs them (`lag`, `rate`).

The coordinator knows the committed offsets of a group. The shell periodically measures the end
offsets of the logs, and how fast they grow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kohort.assignor.server import Load
from kohort.coordinator.consumer.epochs import bump
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.target import is_due, write_target
from kohort.coordinator.effects import Effects
from kohort.group_events import Cause, RebalanceReason
from kohort.model import Millis
from kohort.wire.group_log import CommittedOffset


@dataclass(frozen=True, slots=True)
class PartitionExtent:
    """Offsets and growth of one partition's log."""

    start: int
    end: int
    """Log end offset: the offset of the next record."""
    rate: float | None
    """Records per second since the previous measurement, or None in the first measurement."""


def weighed_topics(groups: ConsumerGroups) -> frozenset[str]:
    """Return the topics of groups whose assignor uses loads."""
    weighing = (group for group in groups.by_id.values() if isinstance(group, ConsumerGroup) and group.planning.weighs)
    return frozenset[str]().union(*(group.topics.counts for group in weighing))


def loads_measured(
    groups: ConsumerGroups, extents: Mapping[str, Sequence[PartitionExtent]], now: Millis, out: Effects
) -> None:
    """Pass measured loads to the groups that use them, and write each target that changes by them.

    `extents` has one entry per partition of each weighed topic, in order. A group whose target is
    due to be computed anyway, or was computed recently, only receives the loads: it uses them for
    that target, or after the next measurement.
    """
    for group in list(groups.by_id.values()):
        if isinstance(group, ConsumerGroup) and group.members and group.planning.weighs is not None:
            for name in group.topics.counts & extents.keys():
                _pass_loads(group, name, extents[name])
            if group.target_epoch == group.epoch and is_due(groups, group, now):
                changed = group.planning.weighed()
                if changed:
                    write_target(
                        groups, group, bump(groups, group, RebalanceReason(Cause.LOAD_CHANGED), out), changed, now, out
                    )


def _pass_loads(group: ConsumerGroup, topic: str, extents: Sequence[PartitionExtent]) -> None:
    if group.planning.weighs is Load.LAG:
        stored = group.offsets.get(topic, {})
        group.planning.weigh(topic, [_lag(stored.get(n), extent) for n, extent in enumerate(extents)])
    else:
        rates = [extent.rate for extent in extents if extent.rate is not None]
        if len(rates) == len(extents):
            group.planning.weigh(topic, rates)


def _lag(stored: CommittedOffset | None, extent: PartitionExtent) -> float:
    """Return the lag of a partition; without a commit, all records in the log."""
    if stored is None:
        return extent.end - extent.start
    return max(0, extent.end - max(stored.offset, extent.start))
