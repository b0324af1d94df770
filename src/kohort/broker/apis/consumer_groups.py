"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups whose coordinator computes the assignment (KIP-848)."""

from functools import partial
from typing import Protocol

from kohort.broker.access import AccessControl
from kohort.broker.apis.gather import Gather
from kohort.broker.apis.operations import GROUP_OPERATIONS
from kohort.broker.fetch import WaitingFetches
from kohort.broker.groups import GroupCoordinator, MemberConnections, TopicsImage, refusal
from kohort.broker.net import Call, ClientConnection
from kohort.coordinator import ClientKind, RequestContext
from kohort.errors import ErrorCode
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    access_control: AccessControl | None
    groups: GroupCoordinator
    waiting_fetches: WaitingFetches
    member_connections: MemberConnections
    protocols: list[str]
    topics_image: TopicsImage


PROTOCOL = "consumer"
"""The protocol's name in group.coordinator.rebalance.protocols."""


def heartbeat(broker: Dependencies, call: Call, request: ConsumerGroupHeartbeatRequest) -> None:
    """Handle a member's heartbeat, the only request of the protocol; it may be held until there is news."""
    if PROTOCOL not in broker.protocols:
        call.reply(refusal(request, call.version, ErrorCode.UNSUPPORTED_VERSION))
        return
    if broker.topics_image.is_due:
        broker.topics_image.tell()
    shard = broker.groups.shard(request.group_id)
    connection = call.connection
    may_hold = not connection.has_many_members
    if connection.client is ClientKind.JAVA:
        call.on_reply = partial(_wake, broker, connection)
    if not shard.quiet_heartbeat(request, call, call if may_hold else None):
        control = broker.access_control
        context = RequestContext(
            call,
            call.version,
            connection.client_id,
            connection.host,
            may_hold,
            connection.client,
            None if control is None else control.viewer(connection),
        )
        shard.handle(request, call, context)
    if connection.members.get(request.member_id) != request.group_id:
        broker.member_connections.heard(connection, request.group_id, request.member_id)
    if call.answer is None and call.open:
        call.on_abandon = lambda: shard.abandoned(call)
        if may_hold:
            connection.held_heartbeat = call


def _wake(broker: Dependencies, connection: ClientConnection, answer: Message) -> None:
    """End the fetches of a member whose assignment changes: in 4.x its thread sleeps until a fetch is answered."""
    if isinstance(answer, ConsumerGroupHeartbeatResponse) and answer.assignment is not None:
        broker.waiting_fetches.keep_awake(connection.who)


def describe(broker: Dependencies, call: Call, request: ConsumerGroupDescribeRequest) -> None:
    """Describe each group from its own shard, in the order of the request."""
    if PROTOCOL not in broker.protocols:
        call.reply(refusal(request, call.version, ErrorCode.UNSUPPORTED_VERSION))
        return

    def join(answers: list[ConsumerGroupDescribeResponse]) -> None:
        groups = [group for answer in answers for group in answer.groups]
        if request.include_authorized_operations:
            for group in groups:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = GROUP_OPERATIONS
        call.reply(ConsumerGroupDescribeResponse(groups=groups))

    gather = Gather(len(request.group_ids), join, ConsumerGroupDescribeResponse)
    for place, group_id in enumerate(request.group_ids):
        part = ConsumerGroupDescribeRequest(
            group_ids=[group_id], include_authorized_operations=request.include_authorized_operations
        )
        waiter = gather.waiter(place, part, call.version)
        broker.groups.shard(group_id).handle(part, waiter, RequestContext(waiter, call.version))
