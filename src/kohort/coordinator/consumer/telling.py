"""What the recorder is told of a consumer group: who takes which step, and when everybody has arrived."""

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import AWAY, ConsumerMember
from kohort.coordinator.consumer.metadata import MetadataImage
from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.coordinator.effects import Effects
from kohort.coordinator.events import Cause, MemberCame, MemberGone, MemberMoved
from kohort.model import TopicPartition


def tell_coming(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, out: Effects) -> None:
    """A member is new, or takes the place of the life before."""
    if before.member_id != after.member_id:
        out.events.append(MemberGone(group.group_id, before.facts, Cause.STATIC_MEMBER_RETURNED, None))
    elif before.member_id in group.members:
        return
    out.events.append(MemberCame(group.group_id, after.facts))


def tell_move(
    group: ConsumerGroup, before: ConsumerMember, moved: ConsumerMember, image: MetadataImage, out: Effects
) -> None:
    """A member takes a step. Who was away had left everything behind."""
    if (
        before.assigned is moved.assigned
        and before.revoking is moved.revoking
        and AWAY not in (before.epoch, moved.epoch)
    ):
        return  # its epoch moved, and nothing else
    had, owed = (NOTHING, NOTHING) if before.epoch == AWAY else (before.assigned, before.revoking)
    has, owes = (NOTHING, NOTHING) if moved.epoch == AWAY else (moved.assigned, moved.revoking)
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
    """Whether everybody is at the target of this group epoch, once `moved` is on record in the place of `before`."""
    others, arrived = len(group.members), group.arrived(epoch)
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
