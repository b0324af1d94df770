"""Removal of members from a consumer group: they leave, their session expires, or they do not revoke in time."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kohort.coordinator.consumer import records
from kohort.coordinator.consumer.admission import find_leaving_member
from kohort.coordinator.consumer.epochs import bump
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember
from kohort.coordinator.consumer.migration import downgrade_without, stays_with_classic_members
from kohort.coordinator.consumer.partitions import NOTHING
from kohort.coordinator.consumer.rebalance_events import add_move_events
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.consumer.subscribing import is_viewer_missing, match_when_viewers_are_known
from kohort.coordinator.effects import Effects
from kohort.coordinator.timers import ExpressionRefresh, MemberRebalanceTimeout, SessionTimeout, TargetDue
from kohort.errors import ErrorCode, KafkaError
from kohort.group_events import Cause, GroupSettled, MemberGone, RebalanceReason
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.leave_group import MemberIdentity


def leave(
    groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest, now: Millis, out: Effects
) -> ConsumerGroupHeartbeatResponse:
    """Remove a member, or mark a static one as away until it returns within its session. Raises KafkaError."""
    group = groups.consumer(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {request.group_id}")
    member = find_leaving_member(group, request.member_id, request.instance_id)
    if request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is not None:
        _static_member_left(groups, group, member, out)
    else:
        remove_members(groups, group, [member], RebalanceReason(Cause.MEMBER_LEFT, member.member_id), now, out)
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)


def session_timed_out(groups: ConsumerGroups, group: ConsumerGroup, member_id: str, now: Millis, out: Effects) -> None:
    """Remove a member whose session expired; otherwise set the timer for its next deadline."""
    member = group.members.get(member_id)
    if member is None:
        return
    is_held = groups.prompt is not None and groups.prompt.is_held(group.group_id, member_id)
    if member.session_deadline <= now and is_held:
        # The member waits for a held response, and this coordinator itself was late.
        member.session_deadline = now + groups.settings(group.group_id).session_timeout_ms
    due_at = group.classic_deadlines.get(member_id)
    if due_at is not None and due_at <= now:
        remove_members(groups, group, [member], RebalanceReason(Cause.REBALANCE_TIMEOUT, member_id), now, out)
    elif member.session_deadline <= now:
        timeout_ms = groups.settings(group.group_id).session_timeout_ms
        heard = member.last_heard(timeout_ms)
        if heard is None:  # it has sent nothing since it joined, when the timer was set
            heard = now - timeout_ms
        why = RebalanceReason(Cause.SESSION_EXPIRED, member_id)
        remove_members(groups, group, [member], why, now, out, silent_since=heard)
    else:
        at = member.next_check_at(now) if due_at is None else min(due_at, member.session_deadline)
        out.timers[SessionTimeout(group.group_id, member_id)] = at


def rebalance_timed_out(
    groups: ConsumerGroups, group: ConsumerGroup, member_id: str, now: Millis, out: Effects
) -> None:
    """Remove a member that did not revoke its partitions in time, because other members wait for them."""
    member = group.members.get(member_id)
    if member is not None and member.state is MemberState.UNREVOKED_PARTITIONS:
        remove_members(groups, group, [member], RebalanceReason(Cause.REBALANCE_TIMEOUT, member_id), now, out)


def remove_by_leave_group(
    groups: ConsumerGroups, group: ConsumerGroup, identities: Iterable[MemberIdentity], now: Millis, out: Effects
) -> list[ErrorCode]:
    """Remove the members that a LeaveGroup lists. Return one error code per identity, in order.

    Members that use the classic protocol leave with this request, and admin clients have no other
    request to remove a member (KAFKA-18188).
    """
    errors: list[ErrorCode] = []
    gone: dict[str, ConsumerMember] = {}
    for identity in identities:
        instance_id = identity.group_instance_id
        holder = None if instance_id is None else group.static_member(instance_id)
        try:
            # An admin client may give only the instance ID, without knowing which member holds it.
            by_name_alone = holder is not None and not identity.member_id
            member = holder if by_name_alone else find_leaving_member(group, identity.member_id, instance_id)
            assert member is not None
            gone[member.member_id] = member
            errors.append(ErrorCode.NONE)
        except KafkaError as refused:
            errors.append(refused.code)
    if gone:
        leaves = all(member.classic is not None for member in gone.values())
        cause = Cause.MEMBER_LEFT if leaves else Cause.REMOVED_BY_ADMIN
        remove_members(groups, group, list(gone.values()), RebalanceReason(cause, next(iter(gone))), now, out)
    return errors


def remove_members(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    members: Sequence[ConsumerMember],
    why: RebalanceReason,
    now: Millis,
    out: Effects,
    *,
    silent_since: Millis | None = None,
) -> None:
    """Remove members and free their partitions. The next heartbeat of a remaining member computes the new target.

    `silent_since` is the last sign of life of members that are presumed dead.

    If all remaining members use the classic protocol, the group becomes a classic group again.
    """
    group_id = group.group_id
    for member in members:
        out.timers[SessionTimeout(group_id, member.member_id)] = None
        out.timers[MemberRebalanceTimeout(group_id, member.member_id)] = None
        out.events.append(MemberGone(group_id, member.facts, why.cause, why.reason, silent_since))
    if stays_with_classic_members(groups, group, members):
        downgrade_without(groups, group, members, why, now, out)
        return
    for member in members:
        out.records += records.no_member(group_id, member.member_id)
    leaving = Counter(m.subscription.expression for m in members if m.subscription.expression is not None)
    for expression, count in leaving.items():
        if count == group.topics.expressions[expression]:
            out.records.append(records.no_expression(group_id, expression))
    if any(is_viewer_missing(groups, group, member) for member in members):
        match_when_viewers_are_known(groups, group, now, out)
    epoch = bump(groups, group, why, out, group.topics.changes([member.subscription for member in members]))
    if len(members) == len(group.members):
        # An empty group is at its target. The next member to join must not wait for the assignment
        # interval since the last target (KAFKA-20442).
        out.records.append(records.target_epoch(group_id, epoch, 0))
        out.timers[ExpressionRefresh(group_id)] = out.timers[TargetDue(group_id)] = None
        out.events.append(GroupSettled(group_id, epoch, ""))


def _static_member_left(groups: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember, out: Effects) -> None:
    """Mark a static member as away. It keeps its partitions.

    Its session continues, and removes the member if it does not return in time.
    """
    away = replace(member, epoch=STATIC_LEAVE_EPOCH, state=MemberState.STABLE, revoking=NOTHING)
    # Epoch 0 for each partition: the restarted process has owned them from the beginning, and the
    # old one commits no more.
    out.records.append(records.current(group.group_id, away, lambda topic_id, partition: 0))
    out.timers[MemberRebalanceTimeout(group.group_id, member.member_id)] = None
    add_move_events(group, member, away, groups.metadata, out)
