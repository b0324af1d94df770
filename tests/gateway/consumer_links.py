"""Connections of the members of a consumer world, through a gateway or not: what `Link` does, without bytes."""

from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from kohort.coordinator import WaitingRequest
from kohort.gateway.group_requests import Waiting
from kohort.gateway.groups import LeaveRequest, Probe
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from tests.gateway.consumer_member import Member
    from tests.gateway.consumer_world import Gateway, World


class Link:
    """The connection of one member to the coordinator, through a gateway or not."""

    def __init__(self, world: "World", member: "Member", gateway: "Gateway | None") -> None:
        self.world, self.member, self.gateway = world, member, gateway
        self.home = world.home
        self.is_open = True
        """Whether the member's side is open."""
        self.is_open_upstream = True
        self.held: Waiting | None = None
        self.members: dict[str, str] = {}
        self.check_members_at = 16
        self.peer = member.name
        self._frames = self._unanswered = 0
        self._parked: deque[Any] = deque()
        self._probes: dict[Hashable, Probe] = {}
        self._client_at = self._up_at = self._down_at = self._back_at = 0
        if gateway is not None:
            gateway.links.append(self)

    @property
    def who(self) -> tuple[str, str]:
        """Host and client ID."""
        return f"/{self.member.name}", self.member.name

    @property
    def awaited_answer(self) -> bool:
        """Whether the member waits for the answer to a heartbeat."""
        return self.can_ask and self.held is not None

    def check_members_later(self) -> None:
        """Check no more: the connection has one member."""
        self.check_members_at *= 2

    # From the member

    def send(self, request: Any) -> None:
        """Send a request of the member."""
        self._client_at = max(self._client_at, self.world.now + self.world.latency())
        self.world.after(self._client_at - self.world.now, lambda: self._at_gateway(request))

    def _at_gateway(self, request: Any) -> None:
        if not self.is_open or (self.gateway is not None and not self.gateway.is_open):
            return
        self._parked.append(request)
        if len(self._parked) == 1:
            self._pass_on()

    def _pass_on(self) -> None:
        """Handle requests in their order, until one must wait for the answer to a probe."""
        while self._parked:
            request, gateway = self._parked[0], self.gateway
            if gateway is None:
                self._ask(request, None)
            elif isinstance(request, ConsumerGroupHeartbeatRequest):
                if self.held is not None:
                    self._release(WaitingRequest.OWN_HEARTBEAT)
                if gateway.groups.arrived(request):
                    return
                self._frames += 1
                waiting = self._waiting(request)
                if not self._unanswered and gateway.groups.covers(request):
                    self.held = waiting
                    gateway.groups.cover(waiting)
                else:
                    self._ask(gateway.groups.request(request), waiting)
            else:
                self._frames += 1
                if self.held is not None:
                    self._release(WaitingRequest.REQUEST)
                self._ask(request, None)
            self._parked.popleft()

    def _waiting(self, request: Any) -> Waiting:
        name = self.member.name
        return Waiting(self, 0, 1, request, name, f"/{name}", self.member.client, self._frames)

    def _release(self, behind: WaitingRequest) -> None:
        assert self.gateway is not None
        held, self.held = self.held, None
        assert held is not None
        self.gateway.groups.release(held, behind)

    # To the coordinator and back

    def _ask(self, request: Any, waiting: Waiting | Probe | None) -> None:
        self._unanswered += 1
        self._up_at = max(self._up_at, self.world.now + self.world.latency(), self._cut_until)
        is_own = isinstance(waiting, Waiting) and waiting.is_own
        gateway = self.gateway

        def arrive() -> None:
            is_given_up = self is not self.member.link
            if is_given_up and (isinstance(request, OffsetCommitRequest) or not (gateway is None or gateway.is_open)):
                # Without a gateway, too, it could arrive after what the member sends on another connection.
                return
            response = self.world.arrives(self, request, is_own=is_own)
            if self.is_open_upstream:  # what was sent before a connection closed arrives, but is not answered
                self._answered(request, response, waiting)

        self.world.after(self._up_at - self.world.now, arrive)

    @property
    def _cut_until(self) -> Millis:
        return 0 if self.gateway is None else self.gateway.cut_until

    def _answered(self, request: Any, response: Any, waiting: Waiting | Probe | None) -> None:
        self._down_at = max(self._down_at, self.world.now + self.world.latency(), self._cut_until)

        def arrive() -> None:
            gateway = self.gateway
            if not self.is_open_upstream or (gateway is not None and not gateway.is_open):
                return
            self._unanswered -= 1
            if isinstance(waiting, Probe):
                if self._probes.pop(waiting.token, None) is not None and gateway is not None:
                    gateway.groups.probed(waiting, response)
            elif waiting is None or gateway is None:
                self._deliver(request, response)
            elif self.is_open or waiting.is_own:
                self.held = waiting
                gateway.groups.answered(waiting, response)
                if self.held is waiting and waiting.frames != self._frames:
                    self._release(WaitingRequest.REQUEST)

        self.world.after(self._down_at - self.world.now, arrive)

    def _deliver(self, request: Any, response: Any) -> None:
        self._back_at = max(self._back_at, self.world.now + self.world.latency())
        self.world.after(self._back_at - self.world.now, lambda: self.member.received(request, response, self))

    # From the gateway

    @property
    def can_ask(self) -> bool:
        """Whether a request can be sent upstream."""
        return self.is_open_upstream

    def answer(self, waiting: Waiting, response: Any) -> None:
        """Send the response to the member."""
        if self.held is waiting:
            self.held = None
        if self.is_open:
            assert isinstance(response, ConsumerGroupHeartbeatResponse)
            self._deliver(waiting.request, response)

    def send_probe(self, probe: Probe, version: int) -> bool:
        """Send a heartbeat in place of the member."""
        if not self.is_open_upstream:
            return False
        self._probes[probe.token] = probe
        self._ask(probe.request, probe)
        return True

    def probe_done(self) -> None:
        """Go on with the requests that waited."""
        if self._parked:
            self._pass_on()

    def leave(self, request: LeaveRequest) -> None:
        """Leave in place of the member."""
        waiting = self._waiting(request)
        waiting.is_own = True
        self._ask(request, waiting)

    def close_upstream(self) -> None:
        """The upstream connection is needed no more."""
        self.is_open_upstream = False

    # Connections that close

    def close(self) -> None:
        """The member's process has ended, or its connection."""
        if not self.is_open:
            return
        self.is_open = False
        gateway = self.gateway
        if gateway is None or not gateway.is_open:
            self.is_open_upstream = False
            return
        gateway.links.remove(self)
        if not gateway.groups.lost(self):
            self.is_open_upstream = False
        probes, self._probes = self._probes, {}
        for probe in probes.values():
            gateway.groups.probe_lost(probe)
        held, self.held = self.held, None
        if held is not None:
            gateway.groups.disconnected(held)
        self._parked.clear()

    def upstream_lost(self) -> None:
        """The broker has died. The gateway closes the client's connection, and the member connects again."""
        self.is_open_upstream = False
        if self.is_open and not self.member.is_gone:
            self.member.reconnect()
