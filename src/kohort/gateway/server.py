"""The gateway: its listeners, the upstream cluster, and its connections."""

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import Collection
from typing import Self
from uuid import uuid4

from kohort.broker.config import Listener
from kohort.broker.net import Newcomers
from kohort.broker.security import ListenerSecurity
from kohort.client import Admin
from kohort.errors import ConfigError
from kohort.gateway.addresses import Address, Brokers
from kohort.gateway.deadlines import Deadlines
from kohort.gateway.figures import Figures
from kohort.gateway.group_requests import GroupRequests
from kohort.gateway.journal import GatewayJournal
from kohort.gateway.link import Link
from kohort.gateway.listening import Doors, bind
from kohort.gateway.login import ClientLogin, UpstreamLogin
from kohort.gateway.options import GatewayOptions, grace_ms, read_config
from kohort.gateway.past_gateway import PastGateway
from kohort.gateway.side import Ends
from kohort.gateway.upstream import Upstream
from kohort.gateway.users import ScramUsers, read_users

log = logging.getLogger("kohort.gateway")

_SWEEP_S = 1.0
_LATE_S = 0.05
"""Delay of a sweep that shows that this process stood still, or was busy."""
_DRAIN_STEP_S, _DRAIN_STEPS = 0.1, 5
"""Times at which the gateway, when it stops, looks whether responses are on their way to clients."""


class Gateway:
    """A gateway on the running event loop: `async with Gateway(options) as gateway: gateway.address`."""

    admin: type[Admin] = Admin
    """Client of the gateway's own requests for the addresses of brokers."""

    def __init__(self, options: GatewayOptions) -> None:
        """Read the settings. Raises ConfigError."""
        self._options = options
        config, self._listeners = read_config(options)
        self.ends_sasl = options.ends_sasl
        self.past_gateway = PastGateway() if options.groups_only else None
        self.max_login_frame = config.number("sasl.server.max.receive.size")
        self._failed_delay_s = config.number("connection.failed.authentication.delay.ms") / 1000
        self._users = None if options.users is None else read_users(options.users)
        self._secured: dict[str, ListenerSecurity] = {}
        self.max_frame = config.number("socket.request.max.bytes")
        self.brokers = Brokers(learned=self._learned)
        self.figures = Figures()
        self.groups: GroupRequests
        self.journal: GatewayJournal | None = None
        self.newcomers: Newcomers
        self.handshake_s = config.number("authentication.timeout.ms") / 1000
        self._grace_ms = grace_ms(options, config)
        self._idle_s = config.number("connections.max.idle.ms") / 1000
        self._frame_s = config.number("frame.read.timeout.ms") / 1000
        self._max_connections = config.number("max.connections")
        self._max_newcomers = config.number("max.connections.unauthenticated")
        self._upstream: Upstream
        self._doors: list[Doors] = []
        self._links: dict[Link, None] = {}
        """Connections in the order in which they were opened."""
        self._idle: Deadlines[Link]
        """When each connection may have been idle for too long."""
        self._incomplete: dict[Link, None] = {}
        """Connections with a request that has arrived in part."""
        self._clients: set[Ends | None] = set()
        """Both ends of each connection of a client."""
        self._reached: dict[Ends | None, Address] = {}
        """Brokers to which the gateway is connected, by both ends of each connection."""
        self._is_full = False
        self._stopping = False
        self._sweeper: asyncio.TimerHandle | None = None
        self._sweep_at: float
        self._is_postponed = False
        """Whether the last sweep was late, and closed nothing."""

    @property
    def address(self) -> Address:
        """Address of the first listener for clients that do not know a broker yet."""
        return self._doors[0].address

    @property
    def bootstrap(self) -> list[Address]:
        """Address of each listener for clients that do not know a broker yet."""
        return [doors.address for doors in self._doors]

    def bind(self, host: str | None, port: int) -> socket.socket:
        """Return a socket that listens at that address. Raises OSError."""
        return bind(host, port)

    @property
    def links(self) -> Collection[Link]:
        """Connections of clients."""
        return self._links.keys()

    @property
    def held(self) -> int:
        """Number of heartbeats that are held."""
        return self.groups.held

    @property
    def known_brokers(self) -> int:
        """Number of brokers whose address is known."""
        return len(self.brokers.upstream)

    @property
    def unreachable_brokers(self) -> int:
        """Number of addresses at which no broker could be reached the last time."""
        return self._upstream.unreachable

    @property
    def gone_members(self) -> int | None:
        """Number of members that did not come back after their connections closed; None without --groups-only."""
        return self.groups.gone_members

    @property
    def rebalances(self) -> int | None:
        """Number of rebalances in the journal; None without a journal."""
        return None if self.journal is None else self.journal.written

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen for clients. Raises KohortError if an address or a certificate cannot be used."""
        loop, options = asyncio.get_running_loop(), self._options
        self._upstream = Upstream(
            options.upstream,
            options.upstream_options,
            self.brokers,
            refresh_s=options.refresh_s,
            reached=self._end_stand_ins,
            admin=self.admin,
        )
        self.journal = self._new_journal()
        self._check_protocols()
        self.groups = GroupRequests(
            options.hold_ms,
            self._grace_ms,
            self.journal,
            clients=lambda: (link.who for link in self._links),
            groups_only=options.groups_only,
        )
        self.newcomers = Newcomers(loop.time)
        self._idle = Deadlines(loop.time())
        try:
            for listener in self._listeners:
                doors = Doors(
                    listener,
                    self.brokers,
                    self,
                    lambda doors, node_id: Link(self, doors, node_id).client,
                    first_node_id=options.first_node_id,
                    sni_domain=options.sni_domain,
                    bind=self.bind,
                )
                self._doors.append(doors)
                if self.ends_sasl and listener.protocol.sasl:
                    self._secured[listener.name] = secured = self._new_security(listener)
                    await secured.start()
                await doors.open()
            for node_id in options.node_ids:
                for doors in self._doors:
                    doors.open_for(node_id)
        except BaseException:
            await self._close_doors()
            raise
        self._warn_of_logins()
        await self._upstream.start(self._found)
        if self.journal is not None:
            self.journal.start()
        self._set_sweeper()

    def _new_security(self, listener: Listener) -> ListenerSecurity:
        names = listener.config.names("sasl.enabled.mechanisms")
        if self._users is None and any(name.startswith("SCRAM") for name in names):
            raise ConfigError(f"The listener {listener.name} offers {', '.join(names)}: name its users by --users.")
        users = ScramUsers(self._users or {}, names, secrets.token_bytes(32))
        return ListenerSecurity(
            listener,
            credentials=lambda: users,
            now=lambda: int(time.time() * 1000),
            time=asyncio.get_running_loop().time,
            fresh_id=uuid4,
            failed_delay_s=self._failed_delay_s,
            passwords=self._users,
        )

    def _check_protocols(self) -> None:
        """Raise ConfigError if clients that connect to a listener cannot connect to the brokers."""
        for listener in self._listeners:
            if self.past_gateway is not None and listener.protocol.tls != self._upstream.has_tls:
                ours, theirs = ("TLS", "none") if listener.protocol.tls else ("no TLS", "TLS")
                raise ConfigError(
                    f"The listener {listener.name} has {ours} and the connections to the cluster have {theirs}. With"
                    " --groups-only, clients connect to both with the same settings: set security.protocol with -X, or"
                    " choose the protocol of --listen."
                )

    def _new_journal(self) -> GatewayJournal | None:
        options = self._options
        if options.journal is None and not options.journal_topic:
            return None
        return GatewayJournal(options.journal, self._upstream.client_options if options.journal_topic else None)

    def _warn_of_logins(self) -> None:
        """Say what the cluster does not see of clients."""
        if self.ends_sasl:
            user = self._upstream.user
            seen = "without a login" if user is None else f"as user {user}"
            log.warning(
                "clients log in at the gateway, and the cluster sees all of them %s: its ACLs and quotas apply to the"
                " gateway, and every client has all of its rights",
                seen,
            )
        for listener in self._listeners:
            if listener.protocol.tls and listener.config.text("ssl.client.auth") != "none":
                log.warning(
                    "the certificates of clients of the listener %s end at the gateway: brokers cannot see them, so"
                    " ACLs for their subjects do not apply; clients must log in with SASL to have a name of their own",
                    listener.name,
                )
        if self._upstream.own_certificate:
            log.warning(
                "brokers see the certificate of the gateway on all connections: without SASL, every client has the"
                " rights of the gateway"
            )

    async def stop(self) -> None:
        """Accept no more connections and requests, pass on the responses that arrive soon, and close everything."""
        self._stopping = True
        self.groups.keep_members()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for doors in self._doors:
            doors.stop_listening()
        await self._upstream.close()
        for link in list(self._links):
            link.drain()
        for _ in range(_DRAIN_STEPS):
            if not self._links:
                break
            await asyncio.sleep(_DRAIN_STEP_S)
            if all(link.is_quiet() for link in self._links):
                break
        links = list(self._links)
        for link in links:
            link.abort()
        for link in links:
            await link.ended()
        # A TLS handshake that is cancelled closes its socket in the next turn of the loop.
        await asyncio.sleep(0)
        self.groups.close()
        if self.journal is not None:
            await self.journal.close()
        await self._close_doors()

    async def _close_doors(self) -> None:
        for secured in self._secured.values():
            secured.close()
        for doors in self._doors:
            await doors.close()

    # Brokers

    def _found(self, node_id: int) -> None:
        for doors in self._doors:
            doors.addresses.open_for(node_id)

    def _learned(self, node_id: int, old: Address | None, new: Address) -> None:
        if old is not None:
            self._upstream.left(old)
            log.warning("broker=%d has moved from %s to %s: new connections go there", node_id, old, new)
        else:
            log.info("broker=%d is at upstream=%s", node_id, new)
        self._end_stand_ins(new)

    def _end_stand_ins(self, address: Address) -> None:
        """Close connections that reached another broker in place of the one at this address. The clients come again."""
        for link in list(self._links):
            if link.misses(address):
                asyncio.get_running_loop().call_soon(link.close)

    # Connections

    def refusal(self, host: str) -> str | None:
        """Return why the host may not begin a TLS handshake; None if it may."""
        if self._stopping:
            return "the gateway is stopping"
        if len(self._links) >= self._max_connections:
            self.figures.refused["max.connections"] += 1
            return "there are max.connections connections already"
        if not self.newcomers.make_room(host, self._max_newcomers):
            self.figures.refused["max.connections.unauthenticated"] += 1
            return "there are max.connections.unauthenticated connections already"
        return None

    def opened(self, link: Link) -> bool:
        """Count a connection. Return whether it is admitted; if not, it is closed."""
        self._links[link] = None
        self._idle.set(link, asyncio.get_running_loop().time() + self._idle_s)
        if link.listener in self._secured:
            host = link.peer.rpartition(":")[0]
            if not self.newcomers.make_room(host, self._max_newcomers):
                self.figures.refused["max.connections.unauthenticated"] += 1
                log.warning(
                    "closing connection peer=%s reason=there are max.connections.unauthenticated connections already",
                    link.peer,
                )
                link.abort()
                return False
            self.newcomers.add(link, host, lambda reason: self._drop(link, reason))
        self.figures.opened += 1
        if link.client_ends is not None:
            self._clients.add(link.client_ends)
            if link.client_ends in self._reached:
                self._upstream.is_itself(self._reached[link.client_ends])
                link.abort()
                return False
        if not self._stopping and len(self._links) <= self._max_connections:
            return True
        if not self._stopping:
            self.figures.refused["max.connections"] += 1
        if not self._is_full and not self._stopping:
            log.warning("refusing connections: there are max.connections=%d already", self._max_connections)
        self._is_full = True
        link.abort()
        return False

    def _drop(self, link: Link, reason: str) -> None:
        self.figures.ended["login"] += 1
        log.warning("closing connection peer=%s reason=%s", link.peer, reason)
        link.abort()

    def closed(self, link: Link) -> None:
        """Forget a connection."""
        self.newcomers.remove(link)
        if link in self._links:
            del self._links[link]
            self._idle.remove(link)
            self._incomplete.pop(link, None)
            self.figures.client_bytes += link.client.received
            self.figures.upstream_bytes += link.upstream.received
            self._clients.discard(link.client_ends)
        self._is_full = self._is_full and len(self._links) >= self._max_connections

    def upstream_closed(self, link: Link, *, is_unanswered: bool) -> None:
        """Note that an upstream connection is closed; `is_unanswered` if the broker did so without any response."""
        address = self._reached.pop(link.upstream_ends, None)
        if address is not None:
            self._upstream.ended(address, is_unanswered=is_unanswered, has_answered=link.upstream.received > 0)

    def began_request(self, link: Link) -> None:
        """Note that a request has arrived in part."""
        if link in self._links:
            self._incomplete[link] = None

    def is_reachable(self, address: Address) -> bool:
        """Return whether a broker can be reached at that address, as far as known."""
        return self._upstream.is_reachable(address)

    async def connect(self, link: Link, upstream: asyncio.Protocol) -> Address:
        """Open the upstream connection of a client, and return its address. Raises OSError."""
        address = await self._upstream.connect(link.node_id, upstream)
        if link.upstream_ends is not None and link.upstream.is_open:
            self._reached[link.upstream_ends] = address
            if link.upstream_ends in self._clients:
                self._upstream.is_itself(address)
                raise OSError("the gateway has reached itself")
        return address

    def client_login(self, link: Link) -> ClientLogin | None:
        """Return the login of a client; None if it does not end at the gateway."""
        secured = self._secured.get(link.listener)
        if secured is None:
            return None

        def ended(successfully: bool) -> None:
            self.newcomers.remove(link)
            if not successfully:
                self.figures.ended["login"] += 1

        return ClientLogin(link, secured, ended)

    async def log_in(self, link: Link, address: Address) -> UpstreamLogin | None:
        """Log in at a broker, if SASL ends at the gateway. Raises KafkaError."""
        return await self._upstream.log_in(link, address) if self.ends_sasl else None

    def _set_sweeper(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep_at = loop.time() + _SWEEP_S
        self._sweeper = loop.call_at(self._sweep_at, self._sweep)

    def _sweep(self) -> None:
        now, due = asyncio.get_running_loop().time(), self._sweep_at
        self._set_sweeper()
        if now - due > _LATE_S and not self._is_postponed:
            # Timers are first when a process goes on that stood still. What clients sent meanwhile is not read.
            self._is_postponed = True
            return
        self._is_postponed = False
        self.newcomers.expire(self.handshake_s)
        for link in [link for link in self._incomplete if not link.completes(now, self._frame_s)]:
            self._incomplete.pop(link, None)
        for link in self._idle.due(now):
            at = link.idle_at(now, self._idle_s)
            if at is not None:
                self._idle.set(link, at)
