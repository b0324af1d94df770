"""Requests of a group's members, passed to the shard that coordinates it; and the two that span shards."""

from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.apis.operations import GROUP_OPERATIONS
from kohort.broker.call import Call
from kohort.broker.gather import Gather
from kohort.coordinator import RequestContext
from kohort.errors import ErrorCode
from kohort.wire.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.heartbeat import HeartbeatRequest
from kohort.wire.join_group import JoinGroupRequest
from kohort.wire.leave_group import LeaveGroupRequest
from kohort.wire.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from kohort.broker.server import Broker

MemberRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest


def heartbeat(broker: "Broker", call: Call, request: HeartbeatRequest) -> None:
    """The most frequent of all requests."""
    connection = call.connection
    if connection.members.get(request.member_id) != request.group_id:
        broker.presence.heard(connection, request.group_id, request.member_id)
    shard = broker.groups.shard(request.group_id)
    if connection.speaks_for_many:
        shard.heartbeat(request, call, None)
        return
    shard.heartbeat(request, call, call)
    if call.answer is None:
        call.on_abandon = partial(shard.abandoned, call)
        connection.may_wait = call


def member(broker: "Broker", call: Call, request: MemberRequest) -> None:
    """JoinGroup, SyncGroup and LeaveGroup; the first two may be parked."""
    shard = broker.groups.shard(request.group_id)
    connection = call.connection
    context = RequestContext(call, call.version, connection.client_id, connection.host, client=connection.client)
    shard.handle(request, call, context)
    if connection.members.get(request.member_id) != request.group_id:
        broker.presence.heard(connection, request.group_id, request.member_id)
    if call.open:
        call.on_abandon = lambda: shard.abandoned(call)


def describe(broker: "Broker", call: Call, request: DescribeGroupsRequest) -> None:
    """Each group from its own shard, in the order asked for."""

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


def list_all(broker: "Broker", call: Call, request: ListGroupsRequest) -> None:
    """The groups of every shard; the first shard's error stands for all, as in Kafka."""
    shards = list(broker.groups)

    def join(answers: list[ListGroupsResponse]) -> None:
        error = next((answer.error_code for answer in answers if answer.error_code), 0)
        groups = [group for answer in answers for group in answer.groups]
        call.reply(ListGroupsResponse(error_code=error, groups=groups))

    gather = Gather(len(shards), join, ListGroupsResponse)
    for place, shard in enumerate(shards):
        waiter = gather.waiter(place, request, call.version)
        shard.handle(request, waiter, RequestContext(waiter, call.version))
