"""Requests of the classic protocol, for a classic group or for a consumer group with members that use it.

The second kind of group is in migration (KIP-848): see `consumer/classic_members.py`.
"""

from kohort.coordinator.classic import (
    JoinAttempt,
    heartbeat_in_classic_group,
    join_classic_group,
    lacks_protocol,
    leave_classic_group,
    leave_response,
    leaving_members,
    out_of_bounds,
    protocols_of,
    sync_with_classic_group,
)
from kohort.coordinator.consumer import (
    ConsumerGroup,
    heartbeat_of_classic_member,
    join_as_classic_member,
    remove_by_leave_group,
    sync_as_classic_member,
)
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.groups import Groups
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.sync_group import SyncGroupRequest


def join(groups: Groups, request: JoinGroupRequest, context: RequestContext, now: Millis, out: Effects) -> None:
    """Answer one JoinGroup, or park it."""
    attempt = JoinAttempt(request, context, protocols_of(request.protocols), now)
    group = groups.consumer(request.group_id)
    if group is None or not group.members or out_of_bounds(groups, request):
        join_classic_group(groups, attempt, out)
    elif not join_as_classic_member(groups, group, attempt, out):
        join_classic_group(groups, attempt, out)  # the group has become one


def sync(groups: Groups, request: SyncGroupRequest, context: RequestContext, now: Millis, out: Effects) -> None:
    """Answer one SyncGroup, or park it."""
    group = groups.consumer(request.group_id)
    if group is None or lacks_protocol(request, context):
        sync_with_classic_group(groups, request, context, now, out)
    else:
        sync_as_classic_member(groups, group, request, context, now, out)


def heartbeat(groups: Groups, request: HeartbeatRequest, now: Millis) -> ErrorCode:
    """Renew a member's session and return the answer. The cheapest and most frequent request."""
    group = groups.by_id.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return heartbeat_of_classic_member(groups, group, request, now)
    return heartbeat_in_classic_group(groups, request, now)


def leave(groups: Groups, request: LeaveGroupRequest, context: RequestContext, now: Millis, out: Effects) -> None:
    """Remove one or several members, each with its own result."""
    group = groups.consumer(request.group_id)
    if group is None:
        leave_classic_group(groups, request, context, now, out)
        return
    members = leaving_members(request, context)
    errors = remove_by_leave_group(groups, group, members, now, out)
    out.replies[context.token] = leave_response(members, errors, context)
