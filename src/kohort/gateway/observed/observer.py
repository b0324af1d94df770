"""All groups whose members use one gateway: the events that their requests and the answers show. Pure."""

from kohort.errors import ErrorCode
from kohort.gateway.observed.classic_group import ObservedClassicGroup
from kohort.gateway.observed.consumer_group import ObservedConsumerGroup
from kohort.gateway.observed.departure import LEAVES, Departure
from kohort.gateway.observed.names import TopicNames
from kohort.group_events import Cause, GroupEvent, MemberFacts
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_MOST_OFFERED = 10_000


class GroupObserver:
    """Events of all groups. A group without members is forgotten."""

    def __init__(self, names: TopicNames) -> None:
        self._names = names
        self._consumer: dict[str, ObservedConsumerGroup] = {}
        self._classic: dict[str, ObservedClassicGroup] = {}
        self._offered: dict[tuple[str, str], None] = {}
        """Group ID and member ID of clients that must join again with the ID that they got (KIP-394)."""
        self._lost: dict[tuple[str, str], Millis] = {}
        """Group ID and member ID of members in whose place the gateway leaves, with the ends of their connections."""

    def sent(self, request: Message, client_id: str, client_host: str) -> list[GroupEvent]:
        """Return the events that a request shows before it is answered."""
        if not isinstance(request, JoinGroupRequest) or not self._is_known(request.group_id, request.member_id):
            return []
        facts = MemberFacts(request.member_id, client_id, client_host, request.group_instance_id)
        return self._classic_group(request.group_id).join_sent(request, facts)

    def _is_known(self, group_id: str, member_id: str) -> bool:
        """Return whether the coordinator has named this member, so that it did not invent its ID."""
        if (group_id, member_id) in self._offered:
            del self._offered[group_id, member_id]
            return True
        group = self._classic.get(group_id)
        return group is not None and group.has_member(member_id)

    def connection_lost(self, group_id: str, member_id: str, closed_at: Millis) -> None:
        """Note that the gateway leaves in place of this member, whose connection is closed."""
        self._lost[group_id, member_id] = closed_at

    def _departure(self, group_id: str, member_id: str) -> Departure:
        closed_at = self._lost.pop((group_id, member_id), None)
        return LEAVES if closed_at is None else Departure(Cause.CONNECTION_LOST, closed_at)

    def answered(
        self, request: Message, response: Message, client_id: str, client_host: str, now: Millis
    ) -> list[GroupEvent]:
        """Return the events that a request of a member and the coordinator's answer show."""
        if isinstance(request, JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest):
            return self._classic_answered(request, response, client_id, client_host)
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            assert isinstance(response, ConsumerGroupHeartbeatResponse)
            return self._heartbeat(request, response, client_id, client_host, now)
        return []

    def _classic_answered(
        self,
        request: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest,
        response: Message,
        client_id: str,
        client_host: str,
    ) -> list[GroupEvent]:
        group = self._classic_group(request.group_id)
        member_id, instance_id = request.member_id, None
        if isinstance(request, JoinGroupRequest) and isinstance(response, JoinGroupResponse):
            member_id = member_id or response.member_id
        if not isinstance(request, LeaveGroupRequest):
            instance_id = request.group_instance_id
        facts = MemberFacts(member_id, client_id, client_host, instance_id)
        events: list[GroupEvent] = []
        match request, response:
            case JoinGroupRequest(), JoinGroupResponse():
                events = group.join_answered(request, response, facts)
                if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                    self._offer(request.group_id, response.member_id)
            case SyncGroupRequest(), SyncGroupResponse():
                events = group.sync_answered(request, response, facts)
            case HeartbeatRequest(), HeartbeatResponse():
                events = group.heartbeat_answered(response, facts)
            case LeaveGroupRequest(), LeaveGroupResponse():
                events = group.leave_answered(request, response, self._departure(request.group_id, request.member_id))
            case _:
                raise AssertionError(f"{response!r} does not answer {request!r}")
        if group.is_empty:
            del self._classic[group.group_id]
        return events

    def _offer(self, group_id: str, member_id: str) -> None:
        self._offered[group_id, member_id] = None
        if len(self._offered) > _MOST_OFFERED:
            del self._offered[next(iter(self._offered))]

    def _heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        client_id: str,
        client_host: str,
        now: Millis,
    ) -> list[GroupEvent]:
        member_id = request.member_id or response.member_id or ""
        facts = MemberFacts(member_id, client_id, client_host, request.instance_id)
        group = self._consumer.get(request.group_id)
        if group is None:
            group = self._consumer[request.group_id] = ObservedConsumerGroup(request.group_id, self._names)
        departure = self._departure(request.group_id, member_id) if request.member_epoch < 0 else LEAVES
        events = group.answered(request, response, facts, now, departure)
        if group.is_empty:
            del self._consumer[request.group_id]
        return events

    def quiet(self, now: Millis) -> list[GroupEvent]:
        """Return the ends of rebalances in which nothing happens any more. Call it about once a second."""
        events: list[GroupEvent] = []
        for group in self._consumer.values():
            if not group.is_settled:
                events += group.settle_if_quiet(now)
        return events

    def _classic_group(self, group_id: str) -> ObservedClassicGroup:
        group = self._classic.get(group_id)
        if group is None:
            group = self._classic[group_id] = ObservedClassicGroup(group_id)
        return group
