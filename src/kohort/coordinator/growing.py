"""Partitions that a topic gets while classic groups read it: nobody has them before a leader assigns anew.

Clients learn of them when their metadata expires, after up to five minutes. The shell makes a client look earlier, by
an error in a fetch; the leaders of some (the Java client's, aiokafka's) then join again by themselves. Others look for
partitions only where they assign, so a group that goes on without the new ones for a moment is asked to join again.
"""

from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.consumer.metadata import UNKNOWN, MetadataImage, changed_names
from kohort.coordinator.effects import Effects
from kohort.coordinator.events import Cause, Why
from kohort.coordinator.groups import Groups
from kohort.coordinator.join_phase import begin_and_proceed
from kohort.coordinator.states import GroupState
from kohort.coordinator.subscriptions import CONSUMER, assigned_partitions
from kohort.coordinator.timers import GrowthDue
from kohort.model import Millis

_BY_THEMSELVES: Millis = 1_000
"""In so much time leaders that join again without being asked have done so."""


def topics_grown(groups: Groups, old: MetadataImage, now: Millis, out: Effects) -> None:
    """Look in a moment at the classic groups that read a topic which has more partitions than before."""
    if old is UNKNOWN or not groups.config.heartbeat_hold_ms:
        return
    grown = {name for name in changed_names(old, groups.metadata) if _has_grown(name, old, groups.metadata)}
    if not grown:
        return
    for group in groups.by_id.values():
        if isinstance(group, ClassicGroup) and group.members and not grown.isdisjoint(group.subscribed_topics() or ()):
            out.timers[GrowthDue(group.group_id)] = now + _BY_THEMSELVES


def _has_grown(name: str, old: MetadataImage, new: MetadataImage) -> bool:
    before, after = old.by_name.get(name), new.by_name.get(name)
    if before is None or after is None or before.topic_id != after.topic_id:
        return False
    return after.shape.partitions > before.shape.partitions


def growth_due(groups: Groups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """Ask the members to join again if the group still leaves out partitions; once, as its assignor may mean it."""
    if group.is_in(GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
        out.timers[GrowthDue(group.group_id)] = now + _BY_THEMSELVES
    elif group.state is GroupState.STABLE and _leaves_out(groups, group):
        begin_and_proceed(groups, group, Why(Cause.TOPICS_CHANGED), now, out)


def _leaves_out(groups: Groups, group: ClassicGroup) -> bool:
    topics = group.subscribed_topics()
    if not topics:
        return False  # it has become a group of others, perhaps of another protocol type
    shares = (assigned_partitions(CONSUMER, member.assignment) for member in group.members.values())
    assigned = {(topic, partition) for share in shares for topic, partition in share}
    known = groups.metadata.by_name
    return any(
        (name, partition) not in assigned
        for name in topics
        if name in known
        for partition in range(known[name].shape.partitions)
    )
