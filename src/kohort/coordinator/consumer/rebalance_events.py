"""Events of a consumer group for the recorder: each step of a member, and the end of a rebalance."""

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember
from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.coordinator.effects import Effects
from kohort.coordinator.topic_metadata import MetadataImage
from kohort.group_events import Cause, MemberCame, MemberGone, MemberMoved
from kohort.model import TopicPartition


def add_join_events(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, out: Effects) -> None:
    """Record that a member is new, or replaces its old process."""
    if before.member_id != after.member_id:
        out.events.append(MemberGone(group.group_id, before.facts, Cause.STATIC_MEMBER_RETURNED, None))
    elif before.member_id in group.members:
        return
    out.events.append(MemberCame(group.group_id, after.facts))


def add_move_events(
    group: ConsumerGroup, before: ConsumerMember, moved: ConsumerMember, image: MetadataImage, out: Effects
) -> None:
    """Record that a member's partitions changed. A member that was away starts with no partitions."""
    if (
        before.assigned is moved.assigned
        and before.revoking is moved.revoking
        and STATIC_LEAVE_EPOCH not in (before.epoch, moved.epoch)
    ):
        return  # only its epoch changed
    had, owed = (NOTHING, NOTHING) if before.epoch == STATIC_LEAVE_EPOCH else (before.assigned, before.revoking)
    has, owes = (NOTHING, NOTHING) if moved.epoch == STATIC_LEAVE_EPOCH else (moved.assigned, moved.revoking)
    step = MemberMoved(
        group.group_id,
        moved.facts,
        moved.epoch,
        owes=_named(owes - owed, image),
        gave_up=_named((had | owed) - (has | owes), image),
        took=_named(has - had, image),
    )
    if step.owes or step.gave_up or step.took:
        out.events.append(step)


def will_be_settled(group: ConsumerGroup, before: ConsumerMember, moved: ConsumerMember, epoch: int) -> bool:
    """Return whether all members are at the target of this group epoch once `moved` replaces `before`."""
    others, arrived = len(group.members), group.stable_at(epoch)
    if before.member_id in group.members:
        others -= 1
        arrived -= before.is_at(epoch)
    return moved.is_at(epoch) and others == arrived


_NONE: frozenset[TopicPartition] = frozenset()


def _named(partitions: Partitions, image: MetadataImage) -> frozenset[TopicPartition]:
    if not partitions:
        return _NONE
    topics = image.by_id
    return frozenset(TopicPartition(topics[t].name, number) for t, number in partitions if t in topics)
