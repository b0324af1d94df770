"""One connection of a client, and the upstream connection that belongs to it.

Authentication and the order of responses belong to a connection, so each client connection has its
own upstream connection.
"""

import asyncio
import logging
from collections.abc import Mapping
from struct import Struct
from typing import Protocol

from kohort.coordinator import ClientKind, WaitingRequest
from kohort.errors import KafkaError, KohortError
from kohort.gateway.addresses import Address, Addresses
from kohort.gateway.figures import Figures
from kohort.gateway.framing import BadStream, Fate, FrameStream
from kohort.gateway.group_requests import GroupRequests
from kohort.gateway.login import SASL_REQUESTS, ClientLogin, UpstreamLogin
from kohort.gateway.member_requests import MemberRequests
from kohort.gateway.own_requests import OwnRequests, RequestStops
from kohort.gateway.past_gateway import PastGateway
from kohort.gateway.side import SLOW, Ends, Side
from kohort.gateway.traffic import (
    Traffic,
    client_id_of,
    correlation_of,
    fetch_of,
    is_readable,
    read_request,
    with_unknown_version,
)
from kohort.wire.codec import Message
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest

log = logging.getLogger("kohort.gateway")

_KEY = Struct(">h")
_LARGEST_RESPONSE = (1 << 31) - 1
"""Maximum size of a response that passes. Brokers have none: fetch.max.bytes of the client decides."""
_LARGEST_READ_RESPONSE = 100 << 20
"""Maximum size of a response that is read, such as one to Metadata."""
_CONNECTING, _STOPPING = "connecting", "stopping"
"""Reasons not to read from a connection."""
_PROBED, _LOGIN, _IN_ORDER = "probe under way", "the gateway logs in", "earlier requests are answered first"
"""Reasons to pass on no requests."""


class Doors(Protocol):
    """The listener that the client uses."""

    addresses: Addresses
    name: str

    def node_of(self, transport: asyncio.BaseTransport, port_of: int | None) -> int | None:
        """Return the broker that a client wants."""


class Dependencies(Protocol):
    """The parts of the gateway that this module uses."""

    figures: Figures
    ends_sasl: bool
    max_login_frame: int
    groups: GroupRequests
    max_frame: int
    past_gateway: PastGateway | None
    """With --groups-only: which clients get the brokers' addresses."""

    def opened(self, link: "Link") -> bool:
        """Return whether the connection is admitted; if not, it is closed."""

    def closed(self, link: "Link") -> None: ...

    def upstream_closed(self, link: "Link", *, is_unanswered: bool) -> None:
        """Note that the upstream connection is closed; `is_unanswered` if the broker did so without any response."""

    def is_reachable(self, address: Address) -> bool:
        """Return whether a broker can be reached at that address, as far as known."""

    def began_request(self, link: "Link") -> None:
        """Note that a request has arrived in part."""

    async def connect(self, link: "Link", upstream: asyncio.Protocol) -> Address:
        """Open the upstream connection, and return its address. Raises OSError."""
        ...

    def client_login(self, link: "Link") -> ClientLogin | None:
        """Return the login of the client; None if it does not end at the gateway."""

    async def log_in(self, link: "Link", address: Address) -> UpstreamLogin | None:
        """Log in at the broker, if SASL ends at the gateway. Raises KafkaError."""


class Link:
    """Both connections. `client` and `upstream` are the protocols of their transports."""

    def __init__(self, gateway: Dependencies, doors: Doors, node_id: int | None) -> None:
        self.node_id = node_id
        """Broker that the client asked for by its port or by name; None for any broker."""
        self.peer = ""
        self.listener = doors.name
        """Name of the listener."""
        self._stand_in: Address | None = None
        """Broker that was reached because the right one was not, or its address was unknown."""
        self._gateway = gateway
        self._doors = doors
        self._journal = gateway.groups.journal
        self._traffic = traffic = Traffic(
            doors.addresses,
            None if self._journal is None else self._journal.names,
            ends_sasl=gateway.ends_sasl,
        )
        self.upstream = Side(self)
        self.client = Side(self)
        self._requests = FrameStream(
            self._decide_request, self.upstream.write, self._request, max_frame=gateway.max_frame
        )
        self._responses = FrameStream(
            self._decide_response,
            self.client.write,
            self._response,
            max_frame=_LARGEST_RESPONSE,
            max_collected=_LARGEST_READ_RESPONSE,
            begin_walk=traffic.begin_walk,
            end_walk=traffic.end_walk,
        )
        self._mid_frame_since: tuple[float, int] | None = None
        """When an incomplete request was first seen, and the number of requests before it."""
        self._connecting: asyncio.Task[None] | None = None
        self._parked: bytes | None = None
        """Request that waits until a probe for its member is answered; all requests behind it wait, too."""
        self._stops = RequestStops(self._requests, self.client)
        self._own = OwnRequests(self.upstream, traffic)
        self._client_login = gateway.client_login(self)
        self._upstream_login: UpstreamLogin | None = None
        self._members = MemberRequests(
            gateway.groups,
            traffic,
            self._own,
            gateway.figures,
            self.client,
            self.upstream,
            may_ask=lambda: not self._stops.is_stopped_for(_LOGIN),
            go_on=self._go_on_after_probe,
        )
        if self._client_login is not None:
            self._stops.stop(_LOGIN)

    def made(self, side: Side) -> None:
        """Continue when a connection is made."""
        if side is self.client:
            address = side.transport.get_extra_info("peername") or ("unknown", 0)
            self.peer = self._members.peer = f"{address[0]}:{address[1]}"
            self._members.host = f"/{address[0]}"
            self.node_id = self._doors.node_of(side.transport, self.node_id)
            self.client.pause(_CONNECTING)
            if self._gateway.opened(self):
                self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        before = self._wanted()
        try:
            reached = await self._gateway.connect(self, self.upstream)
        except OSError:
            self.close()  # `connect` has logged it
            return
        wanted = self._wanted()
        is_back = wanted not in (None, reached) and self._gateway.is_reachable(wanted)
        if wanted not in (before, reached) or is_back:
            # It was found while another broker was connected. The client connects again.
            self.close()
            return
        if self.node_id is not None and wanted != reached:
            self._stand_in = reached
        try:
            self._upstream_login = await self._gateway.log_in(self, reached)
        except KafkaError:
            self.close()  # `log_in` has logged it
            return
        if self.client.is_open:
            self.client.resume(_CONNECTING)
            self._go_on(_LOGIN)
        else:
            self.upstream.close()

    def _wanted(self) -> Address | None:
        """Return the address of the broker that the client asked for; None if it is not known."""
        return None if self.node_id is None else self._doors.addresses.brokers.upstream.get(self.node_id)

    def misses(self, address: Address) -> bool:
        """Return whether the client wants the broker at this address, and reached another one in its place."""
        return self._stand_in not in (None, address) and self._wanted() == address

    def idle_at(self, now: float, idle_s: float) -> float | None:
        """Return when the connection will have been idle for `idle_s`; if it has, close it and return None."""
        at = max(self.client.busy_at, self.upstream.busy_at) + idle_s
        if now < at:
            return at
        self._gateway.figures.ended["idle"] += 1
        log.info("closing connection peer=%s reason=nothing arrived within connections.max.idle.ms", self.peer)
        self.abort()
        return None

    def completes(self, now: float, frame_s: float) -> bool:
        """Return whether a request is incomplete. Close the connection if it has been for `frame_s`."""
        if not self._requests.mid_frame:
            self._mid_frame_since = None
            return False
        if self.client.is_paused:
            self._mid_frame_since = None
        elif self._mid_frame_since is None or self._mid_frame_since[1] != self._members.count:
            self._mid_frame_since = now, self._members.count
        elif now - self._mid_frame_since[0] > frame_s:
            self._gateway.figures.ended["incomplete request"] += 1
            log.warning(
                "closing connection peer=%s reason=a request did not arrive completely within frame.read.timeout.ms",
                self.peer,
            )
            self.abort()
        return True

    def drain(self) -> None:
        """Take no more requests from the client."""
        self.client.pause(_STOPPING)

    def is_quiet(self) -> bool:
        """Return whether no response is on its way to the client."""
        return not (
            self._responses.mid_frame or (self.client.is_open and self.client.transport.get_write_buffer_size())
        )

    def received(self, side: Side, data: bytes) -> None:
        """Pass bytes to the other side."""
        try:
            (self._requests if side is self.client else self._responses).feed(data)
            if side is self.client:
                self._stops.received()
                if self._requests.mid_frame:
                    self._gateway.began_request(self)
        except (BadStream, KohortError) as problem:
            self._end(problem, side)

    def _end(self, problem: Exception, side: Side) -> None:
        self._gateway.figures.ended["protocol"] += 1
        who = "client" if side is self.client else "upstream broker"
        log.warning("closing connection peer=%s reason=%s (from the %s)", self.peer, problem, who)
        self.close()

    def lost(self, side: Side) -> None:
        """Close the other connection, when it has sent what it has."""
        if side is self.upstream:
            is_unanswered = self.client.is_open and self._members.count > 0 and not side.received
            self._gateway.upstream_closed(self, is_unanswered=is_unanswered)
        # After a part of a request, no other one can follow.
        is_needed = side is self.client and self._gateway.groups.lost(self._members) and not self._requests.is_passing
        if is_needed:
            self.upstream.resume(SLOW)
        else:
            self.other(side).close()
            if self._upstream_login is not None:
                self._upstream_login.cancel()
            self._own.end()
            self._stops.end()
        self._members.probes_lost()
        if side is self.client:
            self._members.client_lost(may_leave=is_needed)
            if self._connecting is not None:
                self._connecting.cancel()
            self._gateway.closed(self)

    def other(self, side: Side) -> Side:
        """Return the other side."""
        return self.upstream if side is self.client else self.client

    @property
    def members(self) -> Mapping[str, str]:
        """Group IDs of the members that last used this connection, by member ID."""
        return self._members.members

    @property
    def who(self) -> tuple[str, str]:
        """Host and client ID, which all connections of one client have in common. The ID is empty if not known yet."""
        return self._members.who

    @property
    def client_ends(self) -> Ends | None:
        """Ends of the client's connection, the client's first; None if unknown."""
        return self.client.ends("peername", "sockname")

    @property
    def upstream_ends(self) -> Ends | None:
        """Ends of the connection to the broker, the gateway's first; None if unknown, or if there is none."""
        return self.upstream.ends("sockname", "peername")

    # Requests

    def _decide_request(self, head: memoryview, size: int) -> Fate:
        if self._members.client_id is None:
            self._members.client_id = client_id_of(head)
        if self._client_login is not None and (fate := self._decide_login(self._client_login, head, size)) is not None:
            return fate
        fate = self._traffic.decide_request(head, size)
        if fate is Fate.PASS:
            fetch = fetch_of(head)
            if fetch is not None and self._journal is not None and self._journal.watching and is_readable(size):
                return Fate.COLLECT
            self._members.passed(fetch)
        return fate

    def _decide_login(self, login: ClientLogin, head: memoryview, size: int) -> Fate | None:
        """Return the fate of a request if it depends on the login of the client."""
        if len(head) < _KEY.size:
            if size < _KEY.size:
                raise BadStream("a request is too short for its header")
            return Fate.UNDECIDED
        if not login.is_authenticated and size > self._gateway.max_login_frame:
            raise BadStream(f"a request of {size} bytes arrived before the client was authenticated")
        (key,) = _KEY.unpack_from(head)
        return Fate.COLLECT if not login.admits(head) or key in SASL_REQUESTS else None

    def _log_in_client(self, login: ClientLogin, frame: bytes) -> None:
        """Handle a request of SASL when all requests before it are answered."""
        self._members.release(WaitingRequest.REQUEST)
        if self._members.are_answered and not self._responses.mid_frame:
            login.request(frame)
            return
        # Responses are in the order of requests: that of the broker to this one follows all others.
        self._members.login_waits()
        self._stops.stop(_IN_ORDER)

        def answered(asked: "asyncio.Future[Message]") -> None:
            if not asked.cancelled() and asked.exception() is None:
                try:
                    login.request(frame)
                except BadStream as problem:
                    self._end(problem, self.client)
                    return
                self._go_on(_IN_ORDER)

        self.ask(ApiVersionsRequest(), 0).add_done_callback(answered)

    def _request(self, frame: bytes) -> None:
        login = self._client_login
        if login is not None:
            if login.is_refused:
                return
            if _KEY.unpack_from(frame)[0] in SASL_REQUESTS:
                self._log_in_client(login, frame)
                return
        header, request = read_request(frame)
        if isinstance(request, ApiVersionsRequest):
            kind = self._members.software = ClientKind.of(request.client_software_name, request.client_software_version)
            past = self._gateway.past_gateway
            self._traffic.groups_only = past is not None and past.admits(kind, request.client_software_name)
        elif isinstance(request, FindCoordinatorRequest):
            self._traffic.expect_coordinators(header.correlation_id, request)
        elif request is None and header.api_key == ApiKey.API_VERSIONS:
            # The broker may know this version, but the gateway does not. KIP-511: to a version that it does not know,
            # the broker answers with its versions, and the client asks again.
            frame = with_unknown_version(frame)
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            is_responding = self._responses.mid_frame
            if not self._members.heartbeat(header, request, frame, is_responding=is_responding):
                self._parked = frame
                self._stops.stop(_PROBED)
            return
        if isinstance(request, FetchRequest) and self._journal is not None:
            self._journal.fetched(request, header.client_id or "", self._members.host)
        self._members.send(header, request, frame)

    # Responses

    def _decide_response(self, head: memoryview, size: int) -> Fate:
        fate = self._traffic.decide_response(head, size)
        if fate is Fate.PASS or fate is Fate.WALK:
            self._members.response_began(correlation_of(head))
        return fate

    def _response(self, frame: bytes) -> None:
        correlation = correlation_of(frame)
        self._members.response_began(correlation)
        if self._own.answered(correlation, frame) or self._members.response(correlation, frame):
            pass
        elif self.client.is_open:
            self.client.write(self._traffic.response(frame))
        else:
            self._traffic.read(frame)  # nobody waits for it

    def _go_on_after_probe(self) -> None:
        if self._parked is not None:
            self._go_on(_PROBED)

    # Requests of the gateway itself

    def ask(self, request: Message, version: int) -> "asyncio.Future[Message]":
        """Send a request to the broker, and return its response."""
        if self.upstream.is_open:
            self._members.own_passed()
        return self._own.ask(request, version)

    def _go_on(self, reason: str) -> None:
        if self._stops.removed(reason):
            return
        parked, self._parked = self._parked, None
        try:
            if parked is not None:
                self._request(parked)
            self._stops.go_on()
            if self._requests.mid_frame:
                self._gateway.began_request(self)
        except (BadStream, KohortError) as problem:
            self._end(problem, self.client)

    async def stop_for_login(self) -> None:
        """Pass on no more requests, and return when the last one is complete."""
        self._stops.stop(_LOGIN)
        await self._stops.complete()

    def go_on_after_login(self) -> None:
        """Pass on requests again."""
        self._go_on(_LOGIN)

    def client_transport(self) -> asyncio.Transport:
        """Return the transport of the client."""
        return self.client.transport

    def to_client(self, frame: bytes) -> None:
        """Send a response of the gateway itself."""
        self.client.write(frame)

    def close(self) -> None:
        """Close both connections."""
        self.client.close()
        self.upstream.close()

    async def ended(self) -> None:
        """Wait until no connection is being made. To be called after `abort`."""
        if self._connecting is not None:
            await asyncio.wait([self._connecting])

    def abort(self) -> None:
        """Close both connections at once, without what is not sent yet."""
        if self._connecting is not None:
            self._connecting.cancel()
        self.client.abort()
        self.upstream.abort()
