"""The requests of group members on their connections: the shell around `GroupMirror`."""

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol

from kohort.coordinator import ClientKind, HeldHeartbeat, RequestContext, Timer, WaitingRequest
from kohort.gateway.groups import GroupMirror, Outcome, Probe, ProbeDue
from kohort.gateway.lost_members import LostMembers, MembersLink
from kohort.gateway.observed import TopicNames
from kohort.gateway.past_gateway import GoneMembers
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.sync_group import SyncGroupRequest

log = logging.getLogger("kohort.gateway")


MemberRequest = (
    ConsumerGroupHeartbeatRequest | HeartbeatRequest | JoinGroupRequest | LeaveGroupRequest | SyncGroupRequest
)
"""Request of a group's member that the gateway reads."""


class MemberConnection(MembersLink, Protocol):
    """Connection of a client with members of groups; see `Link`."""

    def answer(self, waiting: "Waiting", response: Message) -> None:
        """Send the response to the client."""

    def send_probe(self, probe: Probe, version: int) -> bool:
        """Send a heartbeat to the coordinator. Return False if that is not possible."""

    def probe_done(self) -> None:
        """Go on with requests that waited for the answer to a probe."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A member's request that waits for its response. It is the token of the request."""

    connection: MemberConnection
    correlation: int
    version: int
    request: MemberRequest
    client_id: str
    client_host: str
    client: ClientKind
    frames: int
    """Number of requests on the connection up to this one."""
    is_own: bool = False
    """Whether it is the gateway's own, in place of the member."""
    received: tuple[Message, bytes] | None = None
    """Response of the coordinator and its frame, which is passed on if the response stays as it is."""

    @property
    def probe_version(self) -> int:
        """Version of a heartbeat to send to the coordinator in its member's place.

        A client that sends SyncGroup 3 may send Heartbeat 3 (KIP-345). The versions before rose together, too.
        """
        return min(self.version, 3) if isinstance(self.request, SyncGroupRequest) else self.version


class Journal(Protocol):
    """Observer of what happens in groups; see `GatewayJournal`."""

    names: TopicNames

    @property
    def watching(self) -> bool:
        """Whether fetches are of interest."""

    def sent(self, request: Message, client_id: str, client_host: str) -> None:
        """Take a request of a member that is on its way to the coordinator."""

    def answered(self, request: Message, response: Message, client_id: str, client_host: str) -> None:
        """Take the coordinator's answer to a request of a member."""

    def connection_lost(self, group_id: str, member_id: str, silent_ms: Millis) -> None:
        """Take a member in whose place the gateway leaves, because its connection is closed since then."""

    def fetched(self, request: FetchRequest, client_id: str, client_host: str) -> None:
        """Take a fetch of a client."""


class GroupRequests:
    """All members whose connections pass through one gateway."""

    def __init__(
        self,
        hold_ms: Millis,
        grace_ms: Millis = 0,
        journal: Journal | None = None,
        *,
        clients: Callable[[], Iterable[tuple[str, str]]] = tuple,
        groups_only: bool = False,
    ) -> None:
        """Hold heartbeats for at most `hold_ms`. `grace_ms` is a value of group.disconnect.grace.ms.

        `clients` returns host and client ID of each open connection of a client, as `MembersLink.who` has them.
        With `groups_only`, members may go on without the gateway, so it removes none.
        """
        self._loop = asyncio.get_running_loop()
        self.journal = journal
        self._mirror = GroupMirror(hold_ms)
        self._gone = GoneMembers(self._mirror) if groups_only else None
        self._lost = LostMembers(self._mirror, grace_ms, self._leaves, clients) if self._gone is None else self._gone
        self._timers: dict[Timer | ProbeDue, tuple[Millis, asyncio.TimerHandle]] = {}

    def now(self) -> Millis:
        """Return the loop's time in milliseconds."""
        return round(self._loop.time() * 1000)

    @property
    def held(self) -> int:
        """Number of heartbeats that are held."""
        return self._mirror.held

    @property
    def all_held(self) -> Collection[HeldHeartbeat]:
        """The heartbeats that are held."""
        return self._mirror.all_held

    @property
    def removes_lost_members(self) -> bool:
        """Whether the gateway leaves in place of members whose connections closed."""
        return self._lost.is_on

    @property
    def lost_members(self) -> int:
        """Number of members whose client's connection is closed, and whose upstream connection is open."""
        return len(self._lost)

    @property
    def gone_members(self) -> int | None:
        """Number of members that did not come back after their connections closed; None unless `groups_only`."""
        return None if self._gone is None else self._gone.count

    def keep_members(self) -> None:
        """Leave no group in place of members whose connections close, because the gateway stops."""
        self._lost.close()

    def lost(self, link: MembersLink) -> bool:
        """Note that a client's connection is closed. Return whether the upstream one is needed."""
        return self._lost.lost(link)

    def _leaves(self, group_id: str, member_id: str, silent_ms: Millis) -> None:
        if self.journal is not None:
            self.journal.connection_lost(group_id, member_id, silent_ms)

    def close(self) -> None:
        """Cancel all timers."""
        for _, timer in self._timers.values():
            timer.cancel()

    def request(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
        """Return what to send to the coordinator in place of a member's request."""
        return self._mirror.request(request, self.now())

    def covers(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Return whether a member's heartbeat need not be passed on; if so, call `cover`."""
        return self._mirror.covers(request, self.now())

    def cover(self, waiting: Waiting) -> None:
        """Take a heartbeat that is not passed on."""
        self._heard(waiting)
        assert isinstance(waiting.request, ConsumerGroupHeartbeatRequest)
        self._apply(self._mirror.cover(waiting.request, _context(waiting), self.now()))

    def arrived(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Note a heartbeat of a member. Return whether it must wait until a probe for the member is answered."""
        self._lost.arrived(request.group_id, request.member_id)
        return self._mirror.is_asked(request)

    def sent(self, waiting: Waiting) -> None:
        """Note a request of a classic group's member that was passed on."""
        if self.journal is not None:
            self.journal.sent(waiting.request, waiting.client_id, waiting.client_host)
        self._apply(self._mirror.sent(waiting.request, _context(waiting), self.now()))
        self._heard(waiting)

    def _heard(self, waiting: Waiting) -> None:
        self._lost.heard(waiting.connection, waiting.request.group_id, waiting.request.member_id)

    def answered(self, waiting: Waiting, response: Message) -> None:
        """Take the coordinator's answer to a member's request."""
        request, context, now = waiting.request, _context(waiting), self.now()
        if self.journal is not None:
            self.journal.answered(request, response, waiting.client_id, waiting.client_host)
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            assert isinstance(response, ConsumerGroupHeartbeatResponse)
            self._apply(self._mirror.response(request, response, context, now))
        else:
            self._apply(self._mirror.answered(request, response, context, now))
        if waiting.is_own:
            self._lost.done(request.group_id, request.member_id)
        elif isinstance(response, JoinGroupResponse | ConsumerGroupHeartbeatResponse) and response.member_id:
            self._lost.heard(waiting.connection, request.group_id, response.member_id)
        else:
            self._heard(waiting)

    def probed(self, probe: Probe, response: ConsumerGroupHeartbeatResponse | HeartbeatResponse) -> None:
        """Take the coordinator's answer to a probe."""
        waiting = _waiting(probe.token)
        if self.journal is not None:
            self.journal.answered(probe.request, response, waiting.client_id, waiting.client_host)
        self._apply(self._mirror.probed(probe, response, self.now()))
        waiting.connection.probe_done()

    def release(self, waiting: Waiting, behind: WaitingRequest) -> None:
        """Answer a held request because another one waits behind it."""
        self._apply(self._mirror.release(waiting, waiting.request, behind, self.now()))

    def disconnected(self, waiting: Waiting) -> None:
        """Drop a held request whose connection is closed."""
        self._mirror.disconnected(waiting)
        self._mirror.abandoned(waiting.request, waiting)

    def abandoned(self, waiting: Waiting) -> None:
        """Forget a request that is not answered yet, and whose connection is closed."""
        self._mirror.abandoned(waiting.request, waiting)

    def probe_lost(self, probe: Probe) -> None:
        """Forget a probe whose connection is closed."""
        self._apply(self._mirror.probe_lost(probe))

    def _apply(self, outcome: Outcome) -> None:
        for timer, at in (*outcome.effects.timers.items(), *outcome.timers.items()):
            self._set(timer, at)
        for token, response in outcome.effects.replies.items():
            waiting = _waiting(token)
            waiting.connection.answer(waiting, response)
        for probe in outcome.probes:
            waiting = _waiting(probe.token)
            if not waiting.connection.send_probe(probe, waiting.probe_version):
                self._apply(self._mirror.probe_lost(probe))

    def _set(self, timer: Timer | ProbeDue, at: Millis | None) -> None:
        before = self._timers.get(timer)
        if before is not None:
            if before[0] == at:
                return
            before[1].cancel()
            del self._timers[timer]
        if at is not None:
            self._timers[timer] = at, self._loop.call_at(at / 1000, self._fire, timer)

    def _fire(self, timer: Timer | ProbeDue) -> None:
        self._timers.pop(timer, None)
        self._apply(self._mirror.fire(timer, self.now()))


def _context(waiting: Waiting) -> RequestContext:
    return RequestContext(
        waiting, waiting.version, waiting.client_id, waiting.client_host, may_hold=True, client=waiting.client
    )


def _waiting(token: Hashable) -> Waiting:
    assert isinstance(token, Waiting)
    return token
