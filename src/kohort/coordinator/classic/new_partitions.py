"""New partitions of a topic that classic groups read: they have no owner until a leader assigns them.

Clients discover them when their metadata expires, after up to five minutes. The shell makes a client
refresh earlier by an error in a fetch; some leaders (the Java client's, aiokafka's) then rejoin by
themselves. Other clients check for partitions only when they assign, so a group that still lacks the
new ones after a moment is asked to rejoin.
"""

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.groups import ClassicGroups
from kohort.coordinator.classic.join_phase import begin_and_proceed
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.effects import Effects
from kohort.coordinator.subscriptions import CONSUMER, assigned_partitions
from kohort.coordinator.topic_metadata import UNKNOWN, MetadataImage, changed_names
from kohort.group_events import Cause, RebalanceReason
from kohort.model import Millis


def partitions_added(groups: ClassicGroups, old: MetadataImage, now: Millis, out: Effects) -> None:
    """Schedule a check of the classic groups that read a topic which has more partitions than before."""
    if old is UNKNOWN or groups.prompt is None:
        return
    grown = {name for name in changed_names(old, groups.metadata) if _has_grown(name, old, groups.metadata)}
    if not grown:
        return
    for group in groups.by_id.values():
        if isinstance(group, ClassicGroup) and group.members and not grown.isdisjoint(group.subscribed_topics() or ()):
            groups.prompt.check_new_partitions(group.group_id, now, out)


def _has_grown(name: str, old: MetadataImage, new: MetadataImage) -> bool:
    before, after = old.by_name.get(name), new.by_name.get(name)
    if before is None or after is None or before.topic_id != after.topic_id:
        return False
    return after.shape.partitions > before.shape.partitions


def new_partitions_check_due(groups: ClassicGroups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """Ask the members to rejoin if partitions are still unassigned. Done once, as the assignor may intend it."""
    if groups.prompt is None:
        return
    if group.is_in(GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
        groups.prompt.check_new_partitions(group.group_id, now, out)
    elif group.state is GroupState.STABLE and _has_unassigned_partitions(groups, group):
        begin_and_proceed(groups, group, RebalanceReason(Cause.TOPICS_CHANGED), now, out)


def _has_unassigned_partitions(groups: ClassicGroups, group: ClassicGroup) -> bool:
    topics = group.subscribed_topics()
    if not topics:
        return False  # the group has other members now, perhaps with another protocol type
    shares = (assigned_partitions(CONSUMER, member.assignment) for member in group.members.values())
    assigned = {(topic, partition) for share in shares for topic, partition in share}
    known = groups.metadata.by_name
    return any(
        (name, partition) not in assigned
        for name in topics
        if name in known
        for partition in range(known[name].shape.partitions)
    )
