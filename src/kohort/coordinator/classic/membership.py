"""Liveness and removal of members: heartbeats, LeaveGroup, session timeouts, and expiry of unused member IDs."""

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.groups import ClassicGroups
from kohort.coordinator.classic.join_phase import begin_and_proceed, complete_if_all_joined
from kohort.coordinator.classic.replies import join_refused, sync_refused
from kohort.coordinator.classic.sessions import expect_heartbeat, has_expired
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.timers import PendingMemberTimeout, SessionTimeout
from kohort.errors import ErrorCode
from kohort.group_events import Cause, MemberGone, RebalanceReason
from kohort.model import Millis
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

_BATCH = 3
"""First version of LeaveGroup that names several members; earlier ones name one and return one error."""
_BY_ADMIN = "member was removed by an admin"
"""Prefix of the reason that the Java admin client gives."""
_POLL_TIMEOUT = "poll timeout"
"""Part of the Java consumer's reason if the application did not poll within max.poll.interval.ms."""


def heartbeat_in_classic_group(groups: ClassicGroups, request: HeartbeatRequest, now: Millis) -> ErrorCode:
    """Renew a member's session and return the answer."""
    group = groups.classic(request.group_id)
    code = current_answer(groups, request)
    if group is not None and (code is ErrorCode.NONE or code is ErrorCode.REBALANCE_IN_PROGRESS):
        member = group.members[request.member_id]
        member.session_deadline = now + member.session_timeout_ms
    return code


def current_answer(groups: ClassicGroups, request: HeartbeatRequest) -> ErrorCode:
    """Return the current answer to a heartbeat of a classic group's member, even one received earlier."""
    group = groups.by_id.get(request.group_id)
    if not isinstance(group, ClassicGroup):
        return ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
    member = group.members.get(request.member_id)
    if member is None or request.group_instance_id is not None:
        error = group.check_member(request.member_id, request.group_instance_id)
        if error:
            return error
        assert member is not None
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def session_timed_out(groups: ClassicGroups, group: ClassicGroup, member_id: str, now: Millis, out: Effects) -> None:
    """Remove a member whose session has ended; for any other, the timer is set again."""
    member = group.members.get(member_id)
    if member is None or not has_expired(group, member, now, out):
        return
    if groups.prompt is not None and groups.prompt.is_held(group.group_id, member_id):
        # The member waits for our answer; the coordinator itself was late.
        expect_heartbeat(groups, group, member, now, out)
        return
    remove_dead_member(
        groups, group, RebalanceReason(Cause.SESSION_EXPIRED, member_id), now, out, silent_since=member.last_heard
    )


def remove_dead_member(
    groups: ClassicGroups,
    group: ClassicGroup,
    why: RebalanceReason,
    now: Millis,
    out: Effects,
    *,
    silent_since: Millis | None,
) -> None:
    """Remove a member that is presumed dead, since its last sign of life; None if that is unknown."""
    _remove(groups, group, why, out, silent_since)
    _rebalance_without(groups, group, why, now, out)


def pending_member_timed_out(
    groups: ClassicGroups, group: ClassicGroup, member_id: str, now: Millis, out: Effects
) -> None:
    """Forget a member ID that was never used; the other members no longer wait for it (KAFKA-7909)."""
    if member_id in group.pending:
        del group.pending[member_id]
        complete_if_all_joined(groups, group, now, out)


def leaving_members(request: LeaveGroupRequest, context: RequestContext) -> list[MemberIdentity]:
    """Return the members that a LeaveGroup names, in the form of any version."""
    return [MemberIdentity(member_id=request.member_id)] if context.api_version < _BATCH else request.members


def leave_classic_group(
    groups: ClassicGroups, request: LeaveGroupRequest, context: RequestContext, now: Millis, out: Effects
) -> None:
    """Remove one or several members, each with its own result, and then rebalance once."""
    identities = leaving_members(request, context)
    if not request.group_id:
        out.replies[context.token] = LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        return
    group = groups.classic(request.group_id)
    errors: list[ErrorCode] = []
    gone: list[RebalanceReason] = []
    for identity in identities:
        error, member_id = _leaving_member(group, identity)
        errors.append(error)
        if group is not None and member_id is not None:
            gone.append(RebalanceReason(_cause(identity), member_id, identity.reason))
            _remove(groups, group, gone[-1], out)
            if groups.prompt is not None and gone[-1].cause is Cause.MEMBER_LEFT:
                groups.prompt.member_left(group, now)
        elif group is not None and not error:
            # The client leaves before it has used the ID that it got; only a running rebalance waited for it.
            del group.pending[identity.member_id]
            out.timers[PendingMemberTimeout(group.group_id, identity.member_id)] = None
    out.replies[context.token] = leave_response(identities, errors, context)
    if group is not None and gone:
        _rebalance_without(groups, group, gone[0], now, out)
    elif group is not None:
        complete_if_all_joined(groups, group, now, out)


def _leaving_member(group: ClassicGroup | None, identity: MemberIdentity) -> tuple[ErrorCode, str | None]:
    """Return the error and the ID of the leaving member; no error and None for an ID that was never used."""
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID, None
    if not identity.member_id:
        # An admin removes a static member by its instance ID alone (KIP-345).
        instance_id = identity.group_instance_id
        member_id = None if instance_id is None else group.static_ids.get(instance_id)
        return (ErrorCode.UNKNOWN_MEMBER_ID if member_id is None else ErrorCode.NONE), member_id
    if identity.member_id in group.pending:
        return ErrorCode.NONE, None
    error = group.check_member(identity.member_id, identity.group_instance_id)
    return error, None if error else identity.member_id


def leave_response(
    identities: list[MemberIdentity], errors: list[ErrorCode], context: RequestContext
) -> LeaveGroupResponse:
    """Return the response with one error per member that leaves."""
    if context.api_version < _BATCH:
        return LeaveGroupResponse(error_code=errors[0])
    members = [
        MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error)
        for identity, error in zip(identities, errors, strict=True)
    ]
    return LeaveGroupResponse(members=members)


def _cause(identity: MemberIdentity) -> Cause:
    reason = identity.reason or ""
    if not identity.member_id or reason.startswith(_BY_ADMIN):
        return Cause.REMOVED_BY_ADMIN
    return Cause.POLL_TIMEOUT if _POLL_TIMEOUT in reason else Cause.MEMBER_LEFT


def _remove(
    groups: ClassicGroups, group: ClassicGroup, why: RebalanceReason, out: Effects, silent_since: Millis | None = None
) -> None:
    """Remove a member; answer its parked requests so that the client joins again under a new ID."""
    member_id = why.member_id
    assert member_id is not None
    parked_join = group.rebalance.joining.get(member_id)
    if parked_join is not None:
        refused = join_refused(ErrorCode.UNKNOWN_MEMBER_ID, "", parked_join.api_version)
        groups.answer(parked_join, refused, out)
    groups.answer(group.rebalance.syncing.get(member_id), sync_refused(ErrorCode.UNKNOWN_MEMBER_ID), out)
    member = group.remove(member_id)
    if groups.prompt is not None:
        groups.prompt.news_for_member(group.group_id, member_id)
    out.timers[SessionTimeout(group.group_id, member_id)] = None
    out.events.append(MemberGone(group.group_id, member.facts, why.cause, why.reason, silent_since))


def _rebalance_without(
    groups: ClassicGroups, group: ClassicGroup, why: RebalanceReason, now: Millis, out: Effects
) -> None:
    """Rebalance after a removal; in the join phase, complete it if it waited only for the removed member."""
    if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        begin_and_proceed(groups, group, why, now, out)
    else:
        complete_if_all_joined(groups, group, now, out)
