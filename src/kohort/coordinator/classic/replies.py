"""Responses to JoinGroup and SyncGroup."""

from kohort.coordinator.classic.group import ClassicGroup
from kohort.errors import ErrorCode
from kohort.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kohort.wire.messages.sync_group import SyncGroupResponse

_PROTOCOL_NAME_NULLABLE = 7
"""First version of JoinGroup in which a missing protocol is null; earlier versions use the empty string."""
_SKIP_ASSIGNMENT = 9
"""First version of JoinGroup with a flag that stops a leader from assigning (KIP-814)."""


def join_refused(error: ErrorCode, member_id: str, api_version: int) -> JoinGroupResponse:
    """Return the response to a join that failed, or that must be repeated with the given member ID."""
    name = None if api_version >= _PROTOCOL_NAME_NULLABLE else ""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=name)


def joined(group: ClassicGroup, member_id: str) -> JoinGroupResponse:
    """Return the current generation; the leader's response lists the members."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader_id or "",
        member_id=member_id,
        members=_members(group) if member_id == group.leader_id else [],
    )


def rejoined_as(group: ClassicGroup, member_id: str, old_leader_id: str | None, api_version: int) -> JoinGroupResponse:
    """Return the current generation for a static member with a new ID whose assignment is still valid.

    If the member leads, it must not assign again. The response says so or, in versions that cannot,
    names the member's old ID as the leader (KIP-814).
    """
    response = joined(group, member_id)
    if api_version >= _SKIP_ASSIGNMENT:
        response.skip_assignment = member_id == group.leader_id
    else:
        response.leader, response.members = old_leader_id or "", []
    return response


def synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """Return the response with a member's assignment."""
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment)


def sync_refused(error: ErrorCode) -> SyncGroupResponse:
    """Return the response to a sync that failed."""
    return SyncGroupResponse(error_code=error)


def _members(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    assert group.protocol is not None
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.protocols[group.protocol],
        )
        for member in group.members.values()
    ]
