"""The requests of group members on one connection of a client: those that wait for the coordinator, and the held one.

Responses are sent in the order of the requests, so an answer that is held holds up all others.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import cast

from kohort.coordinator import ClientKind, WaitingRequest
from kohort.gateway.figures import Figures
from kohort.gateway.group_requests import GroupRequests, MemberRequest, Waiting
from kohort.gateway.groups import LeaveRequest, Probe
from kohort.gateway.own_requests import OwnRequests
from kohort.gateway.side import Side
from kohort.gateway.traffic import Traffic, request_frame, response_frame
from kohort.wire.api import RequestHeader
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_SIZE = Struct(">i")
_HEARTBEATS = HeartbeatRequest | ConsumerGroupHeartbeatRequest
_FEW_MEMBERS = 16
_LEAVE_VERSION = 1
"""Version of LeaveGroup with which the gateway leaves in place of a member. All brokers know it."""


class MemberRequests:
    """Requests of one connection. It implements `MemberConnection`."""

    def __init__(
        self,
        groups: GroupRequests,
        traffic: Traffic,
        own: OwnRequests,
        figures: Figures,
        client: Side,
        upstream: Side,
        *,
        may_ask: Callable[[], bool],
        go_on: Callable[[], None],
    ) -> None:
        """`may_ask` returns whether the upstream connection takes requests; `go_on` is called after each probe."""
        self._groups = groups
        self._traffic = traffic
        self._own = own
        self._figures = figures
        self._client = client
        self._upstream = upstream
        self._may_ask = may_ask
        self._go_on = go_on
        self.peer = ""
        """Address of the client."""
        self.host = ""
        """Its host, as members have it."""
        self.software = ClientKind.OTHER
        self.count = 0
        """Number of requests of the client so far."""
        self._unanswered = 0
        """Number of requests and probes that were sent upstream, without the responses that have begun to arrive."""
        self._waiting: dict[int, Waiting] = {}
        """Requests of members that the coordinator has not answered yet, by correlation ID."""
        self._held: Waiting | None = None
        """The request whose answer the gateway holds, if any: no response can overtake it."""
        self.members: dict[str, str] = {}
        """Group IDs of the members that last used this connection, by member ID."""
        self.check_members_at = _FEW_MEMBERS
        """Number of members at which it is checked which of them have left."""
        self._heartbeat_version = 0
        """Version of the last ConsumerGroupHeartbeat."""
        self.client_id: str | None = None
        """Client ID of the requests; None before the first one."""
        self._fetch: int | None = None
        """Correlation ID of the last Fetch, while its response has not begun to arrive."""
        self._probes: dict[int, Probe] = {}

    @property
    def who(self) -> tuple[str, str]:
        """Host and client ID, which all connections of one client have in common."""
        return self.host, self.client_id or ""

    @property
    def awaited_answer(self) -> bool:
        """Whether the client waits for the answer to a heartbeat or a fetch.

        No if the gateway closes the connection, as it does without a broker: the client may wait before it tries again.
        """
        if not self.can_ask:
            return False
        return self._fetch is not None or any(
            isinstance(waiting.request, _HEARTBEATS) for waiting in self._all_waiting()
        )

    @property
    def are_answered(self) -> bool:
        """Whether no response to a request that was sent upstream has yet to begin."""
        return not self._unanswered

    # Requests

    def _all_waiting(self) -> Iterator[Waiting]:
        if self._held is not None:
            yield self._held
        yield from self._waiting.values()

    def passed(self, fetch: int | None) -> None:
        """Note a request that is not read, and is passed on. `fetch` is its correlation ID if it is a Fetch."""
        self.release(WaitingRequest.REQUEST)  # a probe that this needs is sent before the request
        self.count += 1
        self._unanswered += 1
        if fetch is not None:
            self._fetch = fetch

    def login_waits(self) -> None:
        """Note a request that the gateway answers itself, after the responses to those that are under way.

        None of these is held: the gateway answers when the broker has.
        """
        self.count += 1

    def own_passed(self) -> None:
        """Note a request of the gateway itself that is passed on."""
        self._unanswered += 1

    def send(self, header: RequestHeader, request: Message | None, frame: bytes) -> None:
        """Pass on a request that was read."""
        if self._held is not None:
            self.release(_behind(self._held.request, request))
        self.count += 1
        waiting = None
        if isinstance(request, JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest):
            waiting = self._expect(header, request)
        elif isinstance(request, FetchRequest):
            self._fetch = header.correlation_id
        self._upstream.write(_SIZE.pack(len(frame)) + frame)
        self._unanswered += 1
        if waiting is not None:
            self._groups.sent(waiting)

    def heartbeat(
        self, header: RequestHeader, request: ConsumerGroupHeartbeatRequest, frame: bytes, *, is_responding: bool
    ) -> bool:
        """Handle a heartbeat. Return False if it must wait for the answer to a probe; then hand it over again.

        `is_responding`: a response is on its way to the client.
        """
        if self._held is not None:
            self.release(_behind(self._held.request, request))
        if self._groups.arrived(request):
            return False
        self.count += 1
        # Responses are sent in the order of the requests. After a Produce without a response, all are passed on.
        if self.are_answered and not is_responding and self._groups.covers(request):
            self._held = self._new_waiting(header, request)
            self._groups.cover(self._held)
        else:
            self._pass_on(header, request, frame)
        return True

    def _pass_on(self, header: RequestHeader, request: ConsumerGroupHeartbeatRequest, frame: bytes) -> None:
        self._expect(header, request)
        self._unanswered += 1
        epoch = request.member_epoch
        sent = self._groups.request(request)
        if sent.member_epoch == epoch:
            self._upstream.write(_SIZE.pack(len(frame)) + frame)
        else:
            self._upstream.write(
                request_frame(header.api_key, header.api_version, header.correlation_id, header.client_id, sent)
            )

    def _expect(self, header: RequestHeader, request: MemberRequest) -> Waiting:
        self._traffic.expect(header.correlation_id, header.api_key, header.api_version)
        waiting = self._waiting[header.correlation_id] = self._new_waiting(header, request)
        return waiting

    def _new_waiting(self, header: RequestHeader, request: MemberRequest) -> Waiting:
        self.client_id = header.client_id
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            self._heartbeat_version = header.api_version
        return Waiting(
            self,
            header.correlation_id,
            header.api_version,
            request,
            header.client_id or "",
            self.host,
            self.software,
            self.count,
        )

    def release(self, behind: WaitingRequest) -> None:
        """Answer the held request, if there is one, because another one waits behind it."""
        held, self._held = self._held, None
        if held is not None:
            self._groups.release(held, behind)

    # Responses

    def response_began(self, correlation: int) -> None:
        """Note that a response to a request has begun to arrive."""
        self._unanswered -= 1
        if correlation == self._fetch:
            self._fetch = None

    def response(self, correlation: int, frame: bytes) -> bool:
        """Take a response. Return whether it is one to a member's request or to a probe."""
        if (probe := self._probes.pop(correlation, None)) is not None:
            answer = cast("ConsumerGroupHeartbeatResponse | HeartbeatResponse", self._traffic.read(frame))
            self._groups.probed(probe, answer)
        elif (waiting := self._waiting.pop(correlation, None)) is not None:
            response = self._traffic.read(frame)
            if isinstance(response, JoinGroupResponse | SyncGroupResponse | LeaveGroupResponse):
                waiting.received = response, frame
            self._held = waiting
            self._groups.answered(waiting, response)
            if self._held is waiting and waiting.frames != self.count:
                self.release(WaitingRequest.REQUEST)  # another one was sent before this response arrived
        else:
            return False
        return True

    def answer(self, waiting: Waiting, response: Message) -> None:
        """Send the response to a member's request."""
        if self._held is waiting:
            self._held = None
        if waiting.received is not None and waiting.received[0] is response:
            frame = waiting.received[1]
            self._client.write(_SIZE.pack(len(frame)) + frame)
            return
        key = waiting.request.KEY
        self._client.write(response_frame(key, waiting.version, waiting.correlation, response))

    # Requests of the gateway in place of members

    def send_probe(self, probe: Probe, version: int) -> bool:
        """Send a heartbeat to the coordinator in place of a member. Return False if that is not possible.

        It is not if the connection is closed, or if the client has sent another request behind the one whose response
        would wait: the answer to the probe would arrive after the response to that request, which must not overtake.
        """
        waiting = cast("Waiting", probe.token)
        if not self.can_ask or waiting.frames != self.count:
            return False
        correlation, key = self._own.next_correlation(), probe.request.KEY
        self._probes[correlation] = probe
        self._unanswered += 1
        self._figures.probes += 1
        self._traffic.expect(correlation, key, version)
        self._upstream.write(request_frame(key, version, correlation, waiting.client_id, probe.request))
        return True

    def probe_done(self) -> None:
        """Go on with the requests that waited for the answer to a probe."""
        self._go_on()

    def check_members_later(self) -> None:
        """Set `check_members_at` to twice the number of members, so that not all are checked for each new one."""
        self.check_members_at = max(_FEW_MEMBERS, 2 * len(self.members))

    @property
    def can_ask(self) -> bool:
        """Whether a request can be sent on the upstream connection."""
        return self._upstream.is_open and self._may_ask()

    def leave(self, request: LeaveRequest) -> None:
        """Leave a group in place of a member."""
        correlation = self._own.next_correlation()
        version = self._heartbeat_version if isinstance(request, ConsumerGroupHeartbeatRequest) else _LEAVE_VERSION
        header = RequestHeader(request.KEY, version, correlation, self.client_id, 0)
        self._expect(header, request).is_own = True
        self._unanswered += 1
        self._upstream.write(request_frame(request.KEY, version, correlation, self.client_id, request))

    def close_upstream(self) -> None:
        """Close the upstream connection, which was open for `leave`."""
        self._upstream.close()

    # Ends of connections

    def probes_lost(self) -> None:
        """Forget the probes: one of the connections is closed."""
        probes, self._probes = self._probes, {}
        for probe in probes.values():
            self._groups.probe_lost(probe)

    def client_lost(self, *, may_leave: bool) -> None:
        """Forget the requests of a client that has closed its connection.

        `may_leave`: the upstream one stays open, so requests to leave are still answered.
        """
        held, self._held = self._held, None
        if held is not None:
            self._groups.disconnected(held)
        waiting, self._waiting = self._waiting, {}
        for correlation, one in waiting.items():
            if may_leave and _leaves(one.request):
                self._waiting[correlation] = one
            else:
                self._groups.abandoned(one)


def _leaves(request: MemberRequest) -> bool:
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        return request.member_epoch < 0
    return isinstance(request, LeaveGroupRequest)


def _behind(held: MemberRequest, request: Message | None) -> WaitingRequest:
    if isinstance(held, _HEARTBEATS) and isinstance(request, _HEARTBEATS):
        same = held.member_id == request.member_id
        return WaitingRequest.OWN_HEARTBEAT if same else WaitingRequest.OTHERS_HEARTBEAT
    if isinstance(request, JoinGroupRequest | LeaveGroupRequest):
        # As its next heartbeat would, it shows that the member need not be told to send one soon.
        return WaitingRequest.OWN_HEARTBEAT
    return WaitingRequest.REQUEST
