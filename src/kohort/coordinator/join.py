"""JoinGroup: who may enter a classic group, and what a member that returns is told."""

from dataclasses import replace

from kohort.coordinator.classic_group import ClassicGroup, with_new_id
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.events import Cause, MemberGone, MemberRejoined
from kohort.coordinator.groups import Groups
from kohort.coordinator.join_phase import Why, begin, complete_if_all_joined, proceed
from kohort.coordinator.member import Member, protocols_of
from kohort.coordinator.records import empty_generation, generation
from kohort.coordinator.replies import join_refused, joined, rejoined_as, sync_refused
from kohort.coordinator.sessions import expect_heartbeat, expect_within
from kohort.coordinator.states import GroupState
from kohort.coordinator.subscriptions import are_readable, change, owned_partitions
from kohort.coordinator.sync import assignment_made
from kohort.coordinator.timers import PendingMemberTimeout, SessionTimeout
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.join_group import JoinGroupRequest

_REBALANCE_TIMEOUT = 1
"""Before this version of JoinGroup the session timeout served as rebalance timeout."""
_MEMBER_ID_REQUIRED = 4
"""From this version of JoinGroup on, a first join only hands out a member id (KIP-394)."""


def join(groups: Groups, request: JoinGroupRequest, context: RequestContext, now: Millis, out: Effects) -> None:
    """Answer, or park, one JoinGroup."""
    group = groups.get(request.group_id)
    error = _refusal(groups, group, request)
    if error:
        if error is ErrorCode.GROUP_MAX_SIZE_REACHED and group is not None:
            _turn_away(groups, group, request.member_id, now, out)
        member_id = "" if error is ErrorCode.GROUP_MAX_SIZE_REACHED else request.member_id
        out.replies[context.token] = join_refused(error, member_id, context.api_version)
        return
    if group is None:
        group = groups.get_or_create(request.group_id)
        # The group is on record before anybody is told its id, as in Kafka: a failover must not forget who asked.
        out.records.append(empty_generation(group, 0, now))
    if request.member_id:
        _join_again(groups, group, request, context, now, out)
    elif request.group_instance_id is not None:
        _join_static(groups, group, request, context, now, out)
    elif context.api_version >= _MEMBER_ID_REQUIRED:
        _hand_out_id(groups, group, request, context, now, out)
    else:
        _enter(groups, group, _fresh_member_id(groups, context.client_id), request, context, now, out)


def _refusal(groups: Groups, group: ClassicGroup | None, request: JoinGroupRequest) -> ErrorCode:
    config = groups.config
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if group is None and request.member_id:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group is not None and not _has_room(groups, group, request):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    protocols = protocols_of(request.protocols)
    if group is None:
        supported = bool(request.protocol_type and protocols)
    else:
        supported = group.supports(request.protocol_type, protocols)
    if not supported or not are_readable(request.protocol_type, protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group is None or not request.member_id:
        return ErrorCode.NONE
    if request.member_id in group.pending and request.group_instance_id is None:
        return ErrorCode.NONE
    return group.check_member(request.member_id, request.group_instance_id)


def _has_room(groups: Groups, group: ClassicGroup, request: JoinGroupRequest) -> bool:
    """Whether group.max.size allows one more.

    During a rebalance those count that have joined: so the members that come last are turned away, in a race of new
    ones (KAFKA-9844) and after the limit was lowered (KAFKA-9885), not the first ones. A static member that returns
    is not one more: it takes its own place (Kafka turns it away when the group is full).
    """
    member_id = request.member_id or group.static_ids.get(request.group_instance_id or "", "")
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return member_id in group.rebalance.joining or len(group.rebalance.joining) < groups.config.max_size
    return member_id in group.members or len(group.members) < groups.config.max_size


def _turn_away(groups: Groups, group: ClassicGroup, member_id: str, now: Millis, out: Effects) -> None:
    """Forget one for whom there is no room; those that wait for it may go on."""
    group.pending.pop(member_id, None)
    out.timers[PendingMemberTimeout(group.group_id, member_id)] = None
    if member_id in group.members:
        member = group.remove(member_id)
        out.timers[SessionTimeout(group.group_id, member_id)] = None
        out.events.append(MemberGone(group.group_id, member.facts, Cause.GROUP_TOO_LARGE, None))
    complete_if_all_joined(groups, group, now, out)


# New members


def _fresh_member_id(groups: Groups, prefix: str) -> str:
    return f"{prefix}-{groups.fresh_id()}"


def _hand_out_id(
    groups: Groups, group: ClassicGroup, request: JoinGroupRequest, context: RequestContext, now: Millis, out: Effects
) -> None:
    """Give an id to join with (KIP-394), so that a client whose answer was lost leaves no ghost member behind."""
    if len(group.pending) >= groups.config.max_pending_members:
        oldest = next(iter(group.pending))
        del group.pending[oldest]
        out.timers[PendingMemberTimeout(group.group_id, oldest)] = None
    member_id = _fresh_member_id(groups, context.client_id)
    group.pending[member_id] = None
    out.timers[PendingMemberTimeout(group.group_id, member_id)] = now + request.session_timeout_ms
    out.replies[context.token] = join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id, context.api_version)


def _enter(
    groups: Groups,
    group: ClassicGroup,
    member_id: str,
    request: JoinGroupRequest,
    context: RequestContext,
    now: Millis,
    out: Effects,
) -> None:
    """Take in a new member and rebalance."""
    member = Member(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id,
        client_host=context.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout(request, context),
        protocols=protocols_of(request.protocols),
        is_new=True,
    )
    cause = Cause.MEMBER_JOINED if group.members else Cause.FIRST_MEMBER
    began = begin(groups, group, Why(cause, member_id, request.reason), now, out)
    if not began:
        group.rebalance.member_added = True
    out.timers[PendingMemberTimeout(group.group_id, member_id)] = None
    group.add(member, request.protocol_type)
    # It cannot send heartbeats before it knows its generation, and nothing tells us whether its client is still
    # there: one that gave up and joined again would leave a ghost for each attempt. So its wait is bounded.
    expect_within(group, member, groups.config.new_member_join_timeout_ms, now, out)
    _park(groups, group, member, request, context, out)
    proceed(groups, group, began, now, out)


# Members that are known


def _join_again(
    groups: Groups, group: ClassicGroup, request: JoinGroupRequest, context: RequestContext, now: Millis, out: Effects
) -> None:
    member_id = request.member_id
    if member_id in group.pending:
        _enter(groups, group, member_id, request, context, now, out)
        return
    member = group.members[member_id]
    cause = change(request.protocol_type, member.protocols, protocols_of(request.protocols))
    if cause is None and group.state is not GroupState.PREPARING_REBALANCE:
        # The leader may know of something that is not in its subscription, such as new partitions of a topic. Only
        # while its assignment is awaited it has no news: then its last answer was lost.
        if group.state is GroupState.COMPLETING_REBALANCE or member_id != group.leader_id:
            out.replies[context.token] = joined(group, member_id)
            return
        cause = Cause.LEADER_REJOINED
    why = Why(cause or Cause.MEMBER_JOINED, member_id, request.reason)
    began = begin(groups, group, why, now, out)
    updated = _updated(member, request, context)
    group.update(member_id, updated)
    _park(groups, group, updated, request, context, out)
    proceed(groups, group, began, now, out)


def _updated(member: Member, request: JoinGroupRequest, context: RequestContext) -> Member:
    return replace(
        member,
        protocols=protocols_of(request.protocols),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout(request, context),  # also of a static member (KAFKA-14009)
    )


def _rebalance_timeout(request: JoinGroupRequest, context: RequestContext) -> Millis:
    if context.api_version < _REBALANCE_TIMEOUT or request.rebalance_timeout_ms < 0:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms


def _park(
    groups: Groups,
    group: ClassicGroup,
    member: Member,
    request: JoinGroupRequest,
    context: RequestContext,
    out: Effects,
) -> None:
    """Let the join wait for the others. One that waited before for the same member was given up by its client."""
    joining = group.rebalance.joining
    earlier = joining.get(member.member_id)
    if earlier is not None:
        refused = join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, earlier.api_version)
        groups.answer(earlier, refused, out)
    joining[member.member_id] = groups.park(context)
    owned = owned_partitions(request.protocol_type, member.protocols)
    out.events.append(MemberRejoined(group.group_id, member.facts, owned))


# Static members (KIP-345)


def _join_static(
    groups: Groups, group: ClassicGroup, request: JoinGroupRequest, context: RequestContext, now: Millis, out: Effects
) -> None:
    """A static member starts, or starts again: then it takes over from the life before."""
    assert request.group_instance_id is not None
    member_id = _fresh_member_id(groups, request.group_instance_id)
    old_id = group.static_ids.get(request.group_instance_id)
    if old_id is None:
        _enter(groups, group, member_id, request, context, now, out)
        return
    old = group.members[old_id]
    old_leader_id = group.leader_id
    _fence(groups, group, old, out)
    member = _updated(with_new_id(old, member_id), request, context)
    group.update(old_id, member)
    out.timers[SessionTimeout(group.group_id, old_id)] = None
    expect_heartbeat(group, member, now, out)
    if group.state is GroupState.STABLE and group.vote() == group.protocol:
        _take_over(group, member, now, out)
        out.replies[context.token] = rejoined_as(group, member_id, old_leader_id, context.api_version)
        return
    # In CompletingRebalance the leader is about to assign to the old id, so the new one would get nothing
    # (KAFKA-9801): everybody joins again.
    began = begin(groups, group, Why(Cause.STATIC_MEMBER_RETURNED, member_id, request.reason), now, out)
    _park(groups, group, member, request, context, out)
    proceed(groups, group, began, now, out)


def _fence(groups: Groups, group: ClassicGroup, old: Member, out: Effects) -> None:
    """Whoever still waits under the old id is a second holder of the instance id: only one may live (KAFKA-8500)."""
    rebalance = group.rebalance
    parked_join = rebalance.joining.pop(old.member_id, None)
    if parked_join is not None:
        refused = join_refused(ErrorCode.FENCED_INSTANCE_ID, old.member_id, parked_join.api_version)
        groups.answer(parked_join, refused, out)
    groups.answer(rebalance.syncing.pop(old.member_id, None), sync_refused(ErrorCode.FENCED_INSTANCE_ID), out)
    rebalance.sync_due.discard(old.member_id)
    out.events.append(MemberGone(group.group_id, old.facts, Cause.STATIC_MEMBER_RETURNED, None))


def _take_over(group: ClassicGroup, member: Member, now: Millis, out: Effects) -> None:
    """Give the old life's assignment to the new one without a rebalance.

    The new id is written, or after a failover the living member would be the fenced one (KAFKA-10284).
    """
    assignment = {m.member_id: m.assignment for m in group.members.values()}
    out.records.append(generation(group, assignment, now))
    out.events.append(assignment_made(group, assignment))
