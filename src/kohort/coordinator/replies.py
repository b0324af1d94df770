"""The answers to JoinGroup and SyncGroup."""

from kohort.coordinator.classic_group import ClassicGroup
from kohort.errors import ErrorCode
from kohort.wire.join_group import JoinGroupResponse, JoinGroupResponseMember
from kohort.wire.sync_group import SyncGroupResponse

_PROTOCOL_NAME_NULLABLE = 7
"""From this version of JoinGroup on, no protocol is null; before, it is the empty string."""
_SKIP_ASSIGNMENT = 9
"""From this version of JoinGroup on, a leader can be told that there is nothing to assign (KIP-814)."""


def join_refused(error: ErrorCode, member_id: str, api_version: int) -> JoinGroupResponse:
    """A join that failed, or that shall be repeated with the member id given."""
    name = None if api_version >= _PROTOCOL_NAME_NULLABLE else ""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=name)


def joined(group: ClassicGroup, member_id: str) -> JoinGroupResponse:
    """The current generation, and to the leader who is in it."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader_id or "",
        member_id=member_id,
        members=_members(group) if member_id == group.leader_id else [],
    )


def rejoined_as(group: ClassicGroup, member_id: str, old_leader_id: str | None, api_version: int) -> JoinGroupResponse:
    """The current generation for a static member that came back under a new id, and whose assignment still holds.

    One that leads must not assign again: it is told so, or where its version cannot say that, it is told that the
    member that it was before leads (KIP-814).
    """
    response = joined(group, member_id)
    if api_version >= _SKIP_ASSIGNMENT:
        response.skip_assignment = member_id == group.leader_id
    else:
        response.leader, response.members = old_leader_id or "", []
    return response


def synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """A member's assignment."""
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment)


def sync_refused(error: ErrorCode) -> SyncGroupResponse:
    """A sync that failed."""
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
