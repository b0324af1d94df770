"""Find the group and the member that a heartbeat belongs to, and check that the group accepts it."""

from kohort.coordinator.classic import ClassicGroup, GroupState
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH, ConsumerMember, Subscription
from kohort.coordinator.consumer.migration import upgraded
from kohort.coordinator.consumer.partitions import Partitions
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.effects import RequestContext
from kohort.errors import ErrorCode, KafkaError
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def find_group(groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroup:
    """Return the group, or a new one that is not yet registered in `groups`.

    A classic group is replaced by a consumer group. If it has members, they are migrated. Raises
    KafkaError GROUP_ID_NOT_FOUND if there is no such consumer group, or if the classic group cannot
    be migrated.
    """
    group_id, group = request.group_id, groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if request.member_epoch != JOIN_EPOCH:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}")
    if isinstance(group, ClassicGroup) and group.state is not GroupState.EMPTY:
        return upgraded(groups, group)
    return ConsumerGroup(group_id)


def find_member(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    member_id: str,
    request: ConsumerGroupHeartbeatRequest,
    owned: Partitions | None,
) -> ConsumerMember:
    """Return the recorded member, or a new one.

    The result has an ID other than `member_id` if `member_id` takes over its static membership.
    Raises KafkaError GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, UNRELEASED_INSTANCE_ID,
    FENCED_INSTANCE_ID or FENCED_MEMBER_EPOCH.
    """
    instance_id = request.instance_id
    holder = None if instance_id is None else group.static_member(instance_id)
    known = group.members.get(member_id)
    if known is None and holder is None and len(group.members) >= groups.config.consumer_max_size:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"{group.group_id} has all members that it may have")
    if request.member_epoch == JOIN_EPOCH:
        return _joining(member_id, known, holder)
    if instance_id is not None:
        known = _static(member_id, instance_id, holder)
    if known is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{group.group_id} has no member {member_id}")
    _check_epoch(known, request.member_epoch, owned)
    return known


def _joining(member_id: str, known: ConsumerMember | None, holder: ConsumerMember | None) -> ConsumerMember:
    """Return the member that joins with epoch 0. Raises KafkaError UNRELEASED_INSTANCE_ID.

    Epoch 0 is always accepted from a member that is new, was fenced (KAFKA-19233), or lost the
    response to its first join.
    """
    if holder is None:
        return known or ConsumerMember(member_id)
    # Kafka also rejects the current holder, so a static member that loses its first response locks
    # itself out. A holder that uses the classic protocol never announces that it shuts down, so a
    # member that joins with its instance ID is its restarted process.
    if holder.epoch != STATIC_LEAVE_EPOCH and holder.member_id != member_id and holder.classic is None:
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


def find_leaving_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """Return the member that leaves. Raises KafkaError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    if instance_id is not None:
        return _static(member_id, instance_id, group.static_member(instance_id))
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{group.group_id} has no member {member_id}")
    return member


def _check_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    if epoch > member.epoch:
        raise _fenced(member, epoch)
    # A member that never received the response with the new epoch may send the previous one. It can
    # then own only partitions that it was assigned.
    if epoch < member.epoch and (epoch != member.previous_epoch or owned is None or not owned <= member.assigned):
        raise _fenced(member, epoch)
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        raise _fenced(member, epoch)


def _fenced(member: ConsumerMember, epoch: int) -> KafkaError:
    sentence = f"the member is at epoch {member.epoch}, not {epoch}: it must give up all partitions and join again"
    return KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, sentence)


def updated_member(
    before: ConsumerMember, member_id: str, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerMember:
    """Return the member updated from the heartbeat, or `before` itself if nothing changes.

    Fields that the heartbeat omits keep their values, except for the subscription when the member joins.
    """
    if _changes_nothing(before, request, context):
        return before
    names, expression = request.subscribed_topic_names, request.subscribed_topic_regex
    subscription = before.subscription
    if request.member_epoch == JOIN_EPOCH:
        # A join names all that its process subscribes to. Clients omit the expression if they have none, but the
        # process before, whose static membership this one continues, may have had one. (Kafka keeps it.)
        subscription = Subscription(frozenset(names or ()), expression or None)
    elif names is not None or expression is not None:
        subscription = Subscription(
            subscription.names if names is None else frozenset(names),
            subscription.expression if expression is None else (expression or None),
        )
    if subscription == before.subscription:
        subscription = before.subscription
    after = before.copy()
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
    if before.epoch == STATIC_LEAVE_EPOCH or before.member_id != member_id:
        # A static member restarted. The new process inherits the assignment, but none of the epochs
        # that the old process received.
        after.member_id, after.epoch, after.previous_epoch = member_id, JOIN_EPOCH, JOIN_EPOCH
    return before if after == before else after


def _changes_nothing(before: ConsumerMember, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> bool:
    """Return whether the heartbeat omits every optional field, as most heartbeats do."""
    return (
        request.member_epoch != JOIN_EPOCH
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
