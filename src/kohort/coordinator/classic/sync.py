"""SyncGroup: the leader sends the assignment, and every member fetches its share.

Members that are late, and send no SyncGroup within the rebalance timeout, are removed.
"""

from collections.abc import Mapping

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.groups import ClassicGroups
from kohort.coordinator.classic.join_phase import begin_and_proceed
from kohort.coordinator.classic.records import generation_record
from kohort.coordinator.classic.replies import sync_refused, synced
from kohort.coordinator.classic.sessions import expect_heartbeat
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.subscriptions import assigned_partitions, members_giving_up
from kohort.coordinator.timers import SessionTimeout, SyncTimeout
from kohort.errors import ErrorCode
from kohort.group_events import AssignmentMade, Cause, MemberGone, RebalanceReason
from kohort.model import Millis
from kohort.wire.messages.sync_group import SyncGroupRequest

_PROTOCOL_REQUIRED = 5
"""First version of SyncGroup in which a member must name its protocol (KIP-559)."""


def sync_with_classic_group(
    groups: ClassicGroups, request: SyncGroupRequest, context: RequestContext, now: Millis, out: Effects
) -> None:
    """Answer one SyncGroup, or park it."""
    group = groups.classic(request.group_id)
    error = _refusal(group, request, context)
    if error:
        out.replies[context.token] = sync_refused(error)
        return
    assert group is not None
    member_id = request.member_id
    group.rebalance.sync_due.discard(member_id)
    if not group.rebalance.sync_due:
        out.timers[SyncTimeout(group.group_id)] = None
    if group.state is GroupState.STABLE and not _waits_for_revocation(group, member_id):
        # A late SyncGroup: the leader's arrived before, so the answer is available.
        out.replies[context.token] = synced(group, group.members[member_id].assignment)
        return
    _park(groups, group, member_id, context, out)
    if member_id == group.leader_id and group.state is GroupState.COMPLETING_REBALANCE:
        _distribute(groups, group, request, now, out)


def lacks_protocol(request: SyncGroupRequest, context: RequestContext) -> bool:
    """Return whether the request omits the protocol that its version requires."""
    return context.api_version >= _PROTOCOL_REQUIRED and None in (request.protocol_type, request.protocol_name)


def _refusal(group: ClassicGroup | None, request: SyncGroupRequest, context: RequestContext) -> ErrorCode:
    if lacks_protocol(request, context):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name is not None and group.protocol is not None and request.protocol_name != group.protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _park(groups: ClassicGroups, group: ClassicGroup, member_id: str, context: RequestContext, out: Effects) -> None:
    """Park the sync until the leader's arrives. An earlier sync of the member was abandoned by its client."""
    syncing = group.rebalance.syncing
    groups.answer(syncing.get(member_id), sync_refused(ErrorCode.REBALANCE_IN_PROGRESS), out)
    syncing[member_id] = groups.park(context)


def _distribute(
    groups: ClassicGroups, group: ClassicGroup, request: SyncGroupRequest, now: Millis, out: Effects
) -> None:
    """Record the leader's assignment and answer the parked syncs. Replaying the record makes the group Stable.

    Members that the leader omitted get an empty assignment; assignments to unknown members are dropped.
    """
    assignment = {share.member_id: bytes(share.assignment) for share in request.assignments}
    assignment = {member_id: assignment.get(member_id, b"") for member_id in group.members}
    out.records.append(generation_record(group, assignment, now))
    out.events.append(assignment_made(group, assignment))
    if groups.prompt is not None and (revoking_members := _revoking_members(group, assignment)):
        group.rebalance.revoking_members = revoking_members
        groups.prompt.hold_syncs(group.group_id, now, out)
    for member_id in list(group.rebalance.syncing):
        if _waits_for_revocation(group, member_id):
            continue
        _answer(groups, group, member_id, assignment[member_id], now, out)


def _answer(
    groups: ClassicGroups, group: ClassicGroup, member_id: str, assignment: bytes, now: Millis, out: Effects
) -> None:
    groups.answer(group.rebalance.syncing.pop(member_id), synced(group, assignment), out)
    # The member owed no heartbeats while it waited for the answer.
    expect_heartbeat(groups, group, group.members[member_id], now, out)


def _revoking_members(group: ClassicGroup, assignment: Mapping[str, bytes]) -> frozenset[str]:
    """Return the members of a cooperative assignor that must give up partitions and rejoin: a rebalance is near.

    A member that is answered now would learn of that rebalance only by its next heartbeat, and the
    partitions that move would have no owner until then. So the answers to the others wait while they
    keep processing, and they rejoin as soon as the first giver does.
    """
    protocols = {member.member_id: member.protocols for member in group.members.values()}
    return members_giving_up(group.protocol_type or "", protocols, assignment)


def _waits_for_revocation(group: ClassicGroup, member_id: str) -> bool:
    revoking_members = group.rebalance.revoking_members
    return revoking_members is not None and member_id not in revoking_members


def held_syncs_due(groups: ClassicGroups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """Answer the syncs that waited for members to give up partitions, because those take too long."""
    if group.state is GroupState.STABLE and group.rebalance.revoking_members is not None:
        group.rebalance.revoking_members = None
        for member_id in list(group.rebalance.syncing):
            _answer(groups, group, member_id, group.members[member_id].assignment, now, out)


def assignment_made(group: ClassicGroup, assignment: Mapping[str, bytes]) -> AssignmentMade:
    """Return the event for a new generation."""
    return AssignmentMade(
        group_id=group.group_id,
        generation=group.generation,
        protocol=group.protocol,
        leader_id=group.leader_id or "",
        members=tuple(member.facts for member in group.members.values()),
        assignment={
            member_id: assigned_partitions(group.protocol_type, share) for member_id, share in assignment.items()
        },
    )


def sync_timed_out(groups: ClassicGroups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """Remove the members that never fetched their assignment, and rebalance.

    Otherwise a group whose leader died between its join and its sync would wait for as long as the
    other members send heartbeats (KAFKA-12890).
    """
    if not group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.rebalance.sync_due:
        return
    missing = [member_id for member_id in group.members if member_id in group.rebalance.sync_due]
    for member_id in missing:
        member = group.remove(member_id)
        out.timers[SessionTimeout(group.group_id, member_id)] = None
        out.events.append(MemberGone(group.group_id, member.facts, Cause.SYNC_MISSED, None))
    begin_and_proceed(groups, group, RebalanceReason(Cause.SYNC_MISSED, missing[0]), now, out)
