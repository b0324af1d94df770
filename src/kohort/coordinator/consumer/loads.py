"""What partitions cost whoever has them: told to groups whose assignor weighs it (`lag`, `rate`).

The coordinator knows what a group has committed; how far the logs reach, and how fast they grow, the shell measures
now and then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kohort.assignor.server import Load
from kohort.coordinator.consumer.epochs import bump
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.target import is_due, write_target
from kohort.coordinator.effects import Effects, Record
from kohort.coordinator.events import Cause, Why
from kohort.coordinator.groups import Groups
from kohort.model import Millis
from kohort.wire.group_records import OffsetCommitValue


@dataclass(frozen=True, slots=True)
class Extent:
    """What the log of one partition holds."""

    start: int
    end: int
    """The offset that the next record gets."""
    rate: float | None
    """Records per second since the measurement before; None in the first."""


def weighed_topics(groups: Groups) -> frozenset[str]:
    """The topics of groups whose assignor wants to know loads."""
    weighing = (one for one in groups.by_id.values() if isinstance(one, ConsumerGroup) and one.planning.weighs)
    return frozenset[str]().union(*(group.topics.counts for group in weighing))


def loads_measured(groups: Groups, extents: Mapping[str, Sequence[Extent]], now: Millis, out: Effects) -> None:
    """Tell the groups that weigh it, and write a new target where one of them is to be shared otherwise.

    `extents` has those of each weighed topic's partitions, in order. A group whose target is to be computed anyway, or
    was only just, is told and takes it into account then, or after the next measurement.
    """
    for group in list(groups.by_id.values()):
        if isinstance(group, ConsumerGroup) and group.members and group.planning.weighs is not None:
            for name in group.topics.counts & extents.keys():
                _tell(group, name, extents[name])
            if group.target_epoch == group.epoch and is_due(groups, group, now):
                changed = group.planning.weighed()
                if changed:
                    write_target(groups, group, bump(groups, group, Why(Cause.LOAD_CHANGED), out), changed, now, out)


def _tell(group: ConsumerGroup, topic: str, extents: Sequence[Extent]) -> None:
    if group.planning.weighs is Load.LAG:
        stored = group.offsets.get(topic, {})
        group.planning.weigh(topic, [_lag(stored.get(n), extent) for n, extent in enumerate(extents)])
    else:
        rates = [extent.rate for extent in extents if extent.rate is not None]
        if len(rates) == len(extents):
            group.planning.weigh(topic, rates)


def _lag(stored: Record | None, extent: Extent) -> float:
    """Where nothing is committed, all that the log holds."""
    if stored is None or not isinstance(stored.value, OffsetCommitValue):
        return extent.end - extent.start
    return max(0, extent.end - max(stored.value.offset, extent.start))
