"""Requests of a group's members, passed to the shard that coordinates it; and the two requests that span shards."""

from functools import partial
from typing import Protocol

from kohort.broker.apis.gather import Gather
from kohort.broker.apis.operations import GROUP_OPERATIONS
from kohort.broker.groups import GroupCoordinator, MemberConnections
from kohort.broker.net import Call
from kohort.coordinator import RequestContext
from kohort.errors import ErrorCode
from kohort.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.sync_group import SyncGroupRequest


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    groups: GroupCoordinator
    member_connections: MemberConnections


MemberRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest


def heartbeat(broker: Dependencies, call: Call, request: HeartbeatRequest) -> None:
    """Handle a Heartbeat, the most frequent request of all; it may be held."""
    connection = call.connection
    if connection.members.get(request.member_id) != request.group_id:
        broker.member_connections.heard(connection, request.group_id, request.member_id)
    shard = broker.groups.shard(request.group_id)
    if connection.has_many_members:
        shard.heartbeat(request, call, None)
        return
    shard.heartbeat(request, call, call)
    if call.answer is None:
        call.on_abandon = partial(shard.abandoned, call)
        connection.held_heartbeat = call


def member(broker: Dependencies, call: Call, request: MemberRequest) -> None:
    """Handle JoinGroup, SyncGroup or LeaveGroup; the first two may be parked."""
    shard = broker.groups.shard(request.group_id)
    connection = call.connection
    context = RequestContext(call, call.version, connection.client_id, connection.host, client=connection.client)
    shard.handle(request, call, context)
    if connection.members.get(request.member_id) != request.group_id:
        broker.member_connections.heard(connection, request.group_id, request.member_id)
    if call.open:
        call.on_abandon = lambda: shard.abandoned(call)


def describe(broker: Dependencies, call: Call, request: DescribeGroupsRequest) -> None:
    """Describe each group from its own shard, in the order of the request."""

    def join(answers: list[DescribeGroupsResponse]) -> None:
        groups = [group for answer in answers for group in answer.groups]
        if request.include_authorized_operations:
            for group in groups:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = GROUP_OPERATIONS
        call.reply(DescribeGroupsResponse(groups=groups))

    gather = Gather(len(request.groups), join, DescribeGroupsResponse)
    for place, group_id in enumerate(request.groups):
        part = DescribeGroupsRequest(
            groups=[group_id], include_authorized_operations=request.include_authorized_operations
        )
        waiter = gather.waiter(place, part, call.version)
        broker.groups.shard(group_id).handle(part, waiter, RequestContext(waiter, call.version))


def list_all(broker: Dependencies, call: Call, request: ListGroupsRequest) -> None:
    """List the groups of every shard; the first shard's error is the error of the response, as in Kafka."""
    shards = list(broker.groups)

    def join(answers: list[ListGroupsResponse]) -> None:
        error = next((answer.error_code for answer in answers if answer.error_code), 0)
        groups = [group for answer in answers for group in answer.groups]
        call.reply(ListGroupsResponse(error_code=error, groups=groups))

    gather = Gather(len(shards), join, ListGroupsResponse)
    for place, shard in enumerate(shards):
        waiter = gather.waiter(place, request, call.version)
        shard.handle(request, waiter, RequestContext(waiter, call.version))
