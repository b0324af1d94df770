"""How members of a consumer group go: they leave, are no longer heard of, or do not give up what they must."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kohort.coordinator.consumer import records
from kohort.coordinator.consumer.admission import find_leaver
from kohort.coordinator.consumer.epochs import bump
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import AWAY, ConsumerMember
from kohort.coordinator.consumer.partitions import NOTHING
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.effects import Effects
from kohort.coordinator.events import Cause, MemberGone
from kohort.coordinator.groups import Groups
from kohort.coordinator.timers import ExpressionRefresh, MemberRebalanceTimeout, SessionTimeout
from kohort.errors import ErrorCode, KafkaError
from kohort.model import Millis
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.leave_group import MemberIdentity


def leave(groups: Groups, request: ConsumerGroupHeartbeatRequest, out: Effects) -> ConsumerGroupHeartbeatResponse:
    """Let a member go, for good or until it returns within its session. Raises KafkaError."""
    group = groups.consumer(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {request.group_id}")
    member = find_leaver(group, request.member_id, request.instance_id)
    if request.member_epoch == AWAY and request.instance_id is not None:
        _let_go(group, member, out)
    else:
        remove_members(groups, group, [member], Cause.MEMBER_LEFT, None, out)
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)


def session_timed_out(groups: Groups, group: ConsumerGroup, member_id: str, now: Millis, out: Effects) -> None:
    """Remove a member that was not heard of; one that was is looked at again when its time comes."""
    member = group.members.get(member_id)
    if member is None:
        return
    if member.session_deadline > now:
        out.timers[SessionTimeout(group.group_id, member_id)] = member.session_deadline
    else:
        remove_members(groups, group, [member], Cause.SESSION_EXPIRED, None, out)


def rebalance_timed_out(groups: Groups, group: ConsumerGroup, member_id: str, out: Effects) -> None:
    """Remove a member that did not give up in time what it was told to: others wait for it."""
    member = group.members.get(member_id)
    if member is not None and member.state is MemberState.UNREVOKED_PARTITIONS:
        remove_members(groups, group, [member], Cause.REBALANCE_TIMEOUT, None, out)


def remove_by_admin(
    groups: Groups, group: ConsumerGroup, identities: Iterable[MemberIdentity], out: Effects
) -> list[ErrorCode]:
    """Remove members that a LeaveGroup names, each with its own answer: admins have no other request (KAFKA-18188)."""
    errors: list[ErrorCode] = []
    gone: dict[str, ConsumerMember] = {}
    for identity in identities:
        instance_id = identity.group_instance_id
        holder = None if instance_id is None else group.static_member(instance_id)
        try:
            # By its instance id alone, an admin need not know which member has it.
            by_name_alone = holder is not None and not identity.member_id
            member = holder if by_name_alone else find_leaver(group, identity.member_id, instance_id)
            assert member is not None
            gone[member.member_id] = member
            errors.append(ErrorCode.NONE)
        except KafkaError as refused:
            errors.append(refused.code)
    if gone:
        remove_members(groups, group, list(gone.values()), Cause.REMOVED_BY_ADMIN, None, out)
    return errors


def remove_members(
    groups: Groups,
    group: ConsumerGroup,
    members: Sequence[ConsumerMember],
    cause: Cause,
    reason: str | None,
    out: Effects,
) -> None:
    """Forget members and free what they had; the next heartbeat of one that stays computes the new target."""
    group_id = group.group_id
    for member in members:
        out.records += records.no_member(group_id, member.member_id)
        out.timers[SessionTimeout(group_id, member.member_id)] = None
        out.timers[MemberRebalanceTimeout(group_id, member.member_id)] = None
        out.events.append(MemberGone(group_id, member.facts, cause, reason))
    leaving = Counter(m.subscription.expression for m in members if m.subscription.expression is not None)
    for expression, count in leaving.items():
        if count == group.topics.expressions[expression]:
            out.records.append(records.no_expression(group_id, expression))
    epoch = bump(groups, group, out, group.topics.changes([member.subscription for member in members]))
    if len(members) == len(group.members):
        # An empty group is at its target; and whoever joins next shall not wait for the interval since the last
        # one (KAFKA-20442).
        out.records.append(records.target_epoch(group_id, epoch, 0))
        out.timers[ExpressionRefresh(group_id)] = None


def _let_go(group: ConsumerGroup, member: ConsumerMember, out: Effects) -> None:
    """A static member will be back: it keeps what it owns. Its session goes on, and ends it if it does not return."""
    away = replace(member, epoch=AWAY, state=MemberState.STABLE, revoking=NOTHING)
    # Its next life has had it all from the beginning, and this one commits no more.
    out.records.append(records.current(group.group_id, away, lambda topic_id, partition: 0))
    out.timers[MemberRebalanceTimeout(group.group_id, member.member_id)] = None
