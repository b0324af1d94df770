"""Who sends a heartbeat, and whether the group takes it for that member."""

from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import AWAY, JOINING, ConsumerMember, Subscription
from kohort.coordinator.consumer.migration import upgraded
from kohort.coordinator.consumer.partitions import Partitions
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.effects import RequestContext
from kohort.coordinator.groups import Groups
from kohort.coordinator.states import GroupState
from kohort.errors import ErrorCode, KafkaError
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def find_group(groups: Groups, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroup:
    """The group, or a new one that is not among the groups yet. Raises KafkaError GROUP_ID_NOT_FOUND.

    A classic group makes way for a consumer group: with its members, if it has some and they can be migrated.
    """
    group_id, group = request.group_id, groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if request.member_epoch != JOINING:
        what = "there is no group" if group is None else "no consumer group is"
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id}")
    if isinstance(group, ClassicGroup) and group.state is not GroupState.EMPTY:
        return upgraded(groups, group)
    return ConsumerGroup(group_id)


def find_member(
    groups: Groups,
    group: ConsumerGroup,
    member_id: str,
    request: ConsumerGroupHeartbeatRequest,
    owned: Partitions | None,
) -> ConsumerMember:
    """The member as it is on record, or a new one. Its id is another than `member_id` where that takes its place.

    Raises KafkaError GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID or
    FENCED_MEMBER_EPOCH.
    """
    instance_id = request.instance_id
    holder = None if instance_id is None else group.static_member(instance_id)
    known = group.members.get(member_id)
    if known is None and holder is None and len(group.members) >= groups.config.consumer_max_size:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"{group.group_id} has all members that it may have")
    if request.member_epoch == JOINING:
        return _joining(member_id, known, holder)
    if instance_id is not None:
        known = _static(member_id, instance_id, holder)
    if known is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{group.group_id} has no member {member_id}")
    _check_epoch(known, request.member_epoch, owned)
    return known


def _joining(member_id: str, known: ConsumerMember | None, holder: ConsumerMember | None) -> ConsumerMember:
    """Epoch 0 is always taken: of one who is new, was fenced (KAFKA-19233), or lost the answer to its first join."""
    if holder is None:
        return known or ConsumerMember(member_id)
    # Kafka refuses the holder itself, too, so that a static member whose first answer was lost is locked out by itself.
    # One that speaks the classic protocol never says that it goes: who comes with its instance id is its next life.
    if holder.epoch != AWAY and holder.member_id != member_id and holder.classic is None:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID, f"instance id {holder.instance_id} belongs to {holder.member_id}"
        )
    return holder


def _static(member_id: str, instance_id: str, holder: ConsumerMember | None) -> ConsumerMember:
    if holder is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has instance id {instance_id}")
    if holder.member_id != member_id:
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, f"{holder.member_id} took over instance id {instance_id}")
    return holder


def find_leaver(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member that leaves. Raises KafkaError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    if instance_id is not None:
        return _static(member_id, instance_id, group.static_member(instance_id))
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{group.group_id} has no member {member_id}")
    return member


def _check_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    if epoch > member.epoch:
        raise _fenced(member, epoch)
    # It may come with the epoch before if it never got the answer that told it the new one: then it owns nothing but
    # what it was given.
    if epoch < member.epoch and (epoch != member.previous_epoch or owned is None or not owned <= member.assigned):
        raise _fenced(member, epoch)
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        raise _fenced(member, epoch)


def _fenced(member: ConsumerMember, epoch: int) -> KafkaError:
    sentence = f"the member is at epoch {member.epoch}, not {epoch}: it must give up all partitions and join again"
    return KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, sentence)


def as_told(
    before: ConsumerMember, member_id: str, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerMember:
    """The member with what the heartbeat says of it; what it leaves out stays. Itself where nothing changes."""
    if _says_nothing(before, request, context):
        return before
    names, expression = request.subscribed_topic_names, request.subscribed_topic_regex
    subscription = before.subscription
    if names is not None or expression is not None:
        subscription = Subscription(
            subscription.names if names is None else frozenset(names),
            subscription.expression if expression is None else (expression or None),
        )
        if subscription == before.subscription:
            subscription = before.subscription
    after = before.copied()
    after.instance_id = request.instance_id or before.instance_id
    after.rack_id = request.rack_id or before.rack_id
    after.client_id, after.client_host = context.client_id, context.client_host
    after.subscription = subscription
    if request.rebalance_timeout_ms != -1:
        after.rebalance_timeout_ms = request.rebalance_timeout_ms
    after.server_assignor = request.server_assignor or before.server_assignor
    if request.weight != -1:
        after.weight = request.weight
    after.classic = None
    if before.epoch == AWAY or before.member_id != member_id:
        # The next life of a static member: what it has goes over to it, and nothing that the last one was told.
        after.member_id, after.epoch, after.previous_epoch = member_id, JOINING, JOINING
    return before if after == before else after


def _says_nothing(before: ConsumerMember, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> bool:
    """Whether the heartbeat leaves everything out, as most do."""
    return (
        request.member_epoch != JOINING
        and before.classic is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == -1
        and request.server_assignor is None
        and request.rack_id is None
        and request.weight == -1
        and request.instance_id in (None, before.instance_id)
        and (context.client_id, context.client_host) == (before.client_id, before.client_host)
    )
