"""JoinGroup: admission of members to a classic group, and answers to members that rejoin."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.groups import ClassicGroups
from kohort.coordinator.classic.join_phase import begin, complete_if_all_joined, proceed
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.records import empty_generation
from kohort.coordinator.classic.replies import join_refused, joined, rejoined_as
from kohort.coordinator.classic.sessions import expect_heartbeat, expect_within
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.classic.static_members import fence, keep_new_id, take_over
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.rejections import TOO_LARGE, RefusingGroup, join_refused_because, subscription_size
from kohort.coordinator.subscriptions import are_readable, assigned_partitions, owned_partitions, subscription_change
from kohort.coordinator.timers import PendingMemberTimeout, SessionTimeout
from kohort.errors import ErrorCode
from kohort.group_events import Cause, MemberGone, MemberRejoined, RebalanceReason
from kohort.model import Millis
from kohort.wire.messages.join_group import JoinGroupRequest

_REBALANCE_TIMEOUT = 1
"""First version of JoinGroup with a rebalance timeout; before it, the session timeout served as attempt."""
_MEMBER_ID_REQUIRED = 4
"""First version of JoinGroup in which a first join only hands out a member ID (KIP-394)."""


@dataclass(slots=True)
class JoinAttempt:
    """One JoinGroup that is being handled."""

    request: JoinGroupRequest
    context: RequestContext
    protocols: Mapping[str, bytes]
    now: Millis

    @property
    def rebalance_timeout_ms(self) -> Millis:
        """How long the other members wait for this one to rejoin."""
        if self.context.api_version < _REBALANCE_TIMEOUT or self.request.rebalance_timeout_ms < 0:
            return self.request.session_timeout_ms
        return self.request.rebalance_timeout_ms


def join_classic_group(groups: ClassicGroups, attempt: JoinAttempt, out: Effects) -> None:
    """Answer one JoinGroup for a classic group, or park it."""
    request, context, now = attempt.request, attempt.context, attempt.now
    group = groups.classic(request.group_id)
    error = _refusal(groups, group, attempt)
    if error:
        if error is ErrorCode.GROUP_MAX_SIZE_REACHED and group is not None:
            _remove_excess_member(groups, group, request.member_id, now, out)
        member_id = "" if error is ErrorCode.GROUP_MAX_SIZE_REACHED else request.member_id
        out.replies[context.token] = join_refused(error, member_id, context.api_version)
        refusing = RefusingGroup(groups.config.max_size, "group.max.size", *_votes(group))
        join_refused_because(groups.config, refusing, request, attempt.protocols, error, context, out)
        return
    if group is None:
        group = groups.start_classic(request.group_id, out)
        # As in Kafka, the group is recorded before a client receives its ID: a failover must not forget the request.
        out.records.append(empty_generation(group, 0, now))
    if request.member_id in group.pending:
        _add_member(groups, group, request.member_id, attempt, out)
    elif request.member_id:
        _rejoin(groups, group, group.members[request.member_id], attempt, out)
    elif request.group_instance_id is not None:
        _join_static(groups, group, request.group_instance_id, attempt, out)
    elif context.api_version >= _MEMBER_ID_REQUIRED:
        _issue_member_id(groups, group, attempt, out)
    else:
        _add_member(groups, group, f"{context.client_id}-{groups.fresh_id()}", attempt, out)


def _refusal(groups: ClassicGroups, group: ClassicGroup | None, attempt: JoinAttempt) -> ErrorCode:
    config, request = groups.config, attempt.request
    error = out_of_bounds(groups, request)
    if error:
        return error
    if group is None and request.member_id:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group is not None and not _has_room(groups, group, request):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if subscription_size(attempt.protocols) > config.max_subscription_bytes:
        return TOO_LARGE
    if not _fits(group, attempt):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group is None or not request.member_id:
        return ErrorCode.NONE
    if request.member_id in group.pending and request.group_instance_id is None:
        return ErrorCode.NONE
    return group.check_member(request.member_id, request.group_instance_id)


def _votes(group: ClassicGroup | None) -> tuple[str | None, Collection[str]]:
    """Return the protocol type that a member must have, if any, and the assignors that all members support."""
    if group is None:
        return None, ()
    return (None if group.state is GroupState.EMPTY else group.protocol_type), group.common_protocols


def out_of_bounds(groups: ClassicGroups, request: JoinGroupRequest) -> ErrorCode:
    """Return the error for a group ID or a session timeout that no group accepts, or NONE."""
    config = groups.config
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


def _fits(group: ClassicGroup | None, attempt: JoinAttempt) -> bool:
    """Return whether the member supports an assignor of all members and its subscriptions are readable for a leader."""
    protocol_type, protocols = attempt.request.protocol_type, attempt.protocols
    if group is None:
        return bool(protocol_type and protocols) and are_readable(protocol_type, protocols)
    if not group.supports(protocol_type, protocols):
        return False
    known = group.members.get(attempt.request.member_id)
    return (known is not None and known.protocols == protocols) or are_readable(protocol_type, protocols)


def _has_room(groups: ClassicGroups, group: ClassicGroup, request: JoinGroupRequest) -> bool:
    """Return whether group.max.size allows one more member.

    During a rebalance, only members that have joined count. So the last members to join are
    rejected, not the first ones, when new members race (KAFKA-9844) and after the limit was lowered
    (KAFKA-9885). A static member that returns takes its own place and does not count again (Kafka
    rejects it if the group is full).
    """
    member_id = request.member_id
    if not member_id and request.group_instance_id is not None:
        member_id = group.static_ids.get(request.group_instance_id, "")
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return member_id in group.rebalance.joining or len(group.rebalance.joining) < groups.config.max_size
    return member_id in group.members or len(group.members) < groups.config.max_size


def _remove_excess_member(
    groups: ClassicGroups, group: ClassicGroup, member_id: str, now: Millis, out: Effects
) -> None:
    """Remove a member that exceeds group.max.size; the join phase may complete without it."""
    group.pending.pop(member_id, None)
    out.timers[PendingMemberTimeout(group.group_id, member_id)] = None
    if member_id in group.members:
        member = group.remove(member_id)
        out.timers[SessionTimeout(group.group_id, member_id)] = None
        out.events.append(MemberGone(group.group_id, member.facts, Cause.GROUP_TOO_LARGE, None))
    complete_if_all_joined(groups, group, now, out)


# New members


def _issue_member_id(groups: ClassicGroups, group: ClassicGroup, attempt: JoinAttempt, out: Effects) -> None:
    """Hand out an ID to join with (KIP-394), so that a client whose answer is lost leaves no ghost member."""
    if len(group.pending) >= groups.config.max_pending_members:
        oldest = next(iter(group.pending))
        del group.pending[oldest]
        out.timers[PendingMemberTimeout(group.group_id, oldest)] = None
    member_id = f"{attempt.context.client_id}-{groups.fresh_id()}"
    group.pending[member_id] = None
    out.timers[PendingMemberTimeout(group.group_id, member_id)] = attempt.now + attempt.request.session_timeout_ms
    refused = join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id, attempt.context.api_version)
    out.replies[attempt.context.token] = refused
    if groups.prompt is not None:
        groups.prompt.new_member_arrived(group, attempt.now, out)


def _add_member(groups: ClassicGroups, group: ClassicGroup, member_id: str, attempt: JoinAttempt, out: Effects) -> None:
    """Add a new member and rebalance."""
    member = Member(
        member_id=member_id,
        instance_id=attempt.request.group_instance_id,
        client_id=attempt.context.client_id,
        client_host=attempt.context.client_host,
        session_timeout_ms=attempt.request.session_timeout_ms,
        rebalance_timeout_ms=attempt.rebalance_timeout_ms,
        protocols=attempt.protocols,
        client=attempt.context.client,
        is_new=True,
    )
    prompt = groups.prompt
    if prompt is not None and not attempt.request.member_id:
        prompt.new_member_arrived(group, attempt.now, out)
    wait_until = None if prompt is None else prompt.new_members_until(group, attempt.now)
    cause = Cause.MEMBER_JOINED if group.members else Cause.FIRST_MEMBER
    began = begin(groups, group, RebalanceReason(cause, member_id, attempt.request.reason), attempt.now, out)
    if began:
        group.rebalance.notice.new_members_until = wait_until
    else:
        group.rebalance.member_added = True
    out.timers[PendingMemberTimeout(group.group_id, member_id)] = None
    group.add(member, attempt.request.protocol_type)
    # The member cannot send heartbeats before it knows its generation, so nothing shows whether its client is
    # alive. A client that gives up and joins again would leave a ghost member per attempt: the wait is bounded.
    expect_within(groups, group, member, groups.config.new_member_join_timeout_ms, attempt.now, out)
    _park(groups, group, member, attempt, out)
    proceed(groups, group, began, attempt.now, out)


# Known members


def _rejoin(groups: ClassicGroups, group: ClassicGroup, member: Member, attempt: JoinAttempt, out: Effects) -> None:
    cause = subscription_change(attempt.request.protocol_type, member.protocols, attempt.protocols)
    if cause is None and group.state is not GroupState.PREPARING_REBALANCE:
        # The leader may know of a change that is not in its subscription, such as new partitions of a topic. While
        # its assignment is awaited it knows of no such change: its last answer was lost.
        if group.state is GroupState.COMPLETING_REBALANCE or member.member_id != group.leader_id:
            out.replies[attempt.context.token] = joined(group, member.member_id)
            return
        cause = Cause.LEADER_REJOINED
    why = RebalanceReason(cause or Cause.MEMBER_JOINED, member.member_id, attempt.request.reason)
    began = begin(groups, group, why, attempt.now, out)
    _update(group, member, attempt)
    _park(groups, group, member, attempt, out)
    proceed(groups, group, began, attempt.now, out)


def _update(group: ClassicGroup, member: Member, attempt: JoinAttempt) -> None:
    group.set_protocols(member, attempt.protocols)
    member.client = attempt.context.client
    member.session_timeout_ms = attempt.request.session_timeout_ms
    member.rebalance_timeout_ms = attempt.rebalance_timeout_ms  # for static members, too (KAFKA-14009)


def _park(groups: ClassicGroups, group: ClassicGroup, member: Member, attempt: JoinAttempt, out: Effects) -> None:
    """Park the join until all members have joined. An earlier join of the member was abandoned by its client."""
    joining = group.rebalance.joining
    earlier = joining.get(member.member_id)
    if earlier is not None:
        refused = join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, earlier.api_version)
        groups.answer(earlier, refused, out)
    joining[member.member_id] = groups.park(attempt.context)
    member.joined_at = attempt.now
    owned = owned_partitions(attempt.request.protocol_type, member.protocols)
    out.events.append(MemberRejoined(group.group_id, member.facts, owned))


def _owes_partitions(group: ClassicGroup, member: Member) -> bool:
    """Return whether the member still had to give up partitions and rejoin so that others get them (KIP-429).

    After a restart, the member does not know of them. If it took over its assignment without a
    rebalance, no member would ever get them.
    """
    owned = owned_partitions(group.protocol_type or "", member.protocols)
    return bool(owned and owned - assigned_partitions(group.protocol_type, member.assignment))


def _join_static(
    groups: ClassicGroups, group: ClassicGroup, instance_id: str, attempt: JoinAttempt, out: Effects
) -> None:
    """Let a static member join; if it was restarted, it takes over from its previous incarnation (KIP-345)."""
    member_id = f"{instance_id}-{groups.fresh_id()}"
    old_id = group.static_ids.get(instance_id)
    if old_id is None:
        _add_member(groups, group, member_id, attempt, out)
        keep_new_id(group, instance_id, member_id, out)
        return
    old_leader_id = group.leader_id
    unfinished = _owes_partitions(group, group.members[old_id])
    fence(groups, group, old_id, out)
    member = group.rename(old_id, member_id)
    _update(group, member, attempt)
    expect_heartbeat(groups, group, member, attempt.now, out)
    if group.state is GroupState.STABLE and group.vote() == group.protocol and not unfinished:
        take_over(group, attempt.now, out)
        reply = rejoined_as(group, member_id, old_leader_id, attempt.context.api_version)
        out.replies[attempt.context.token] = reply
        return
    # In CompletingRebalance the leader is about to assign to the old ID, so the new one would get nothing
    # (KAFKA-9801): all members must join again.
    began = begin(
        groups,
        group,
        RebalanceReason(Cause.STATIC_MEMBER_RETURNED, member_id, attempt.request.reason),
        attempt.now,
        out,
    )
    keep_new_id(group, instance_id, member_id, out)
    _park(groups, group, member, attempt, out)
    proceed(groups, group, began, attempt.now, out)
