"""The broker's listening sockets and connections: their number, idle timeouts, and throttling by the log."""

import asyncio
import errno
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from kohort.broker.config import BrokerConfig, Listener
from kohort.broker.net.connection import ClientConnection
from kohort.broker.net.flushes import FlushQueue
from kohort.broker.net.newcomers import Newcomers
from kohort.broker.net.tls import ListenerTls
from kohort.broker.net.tls_server import TlsServer
from kohort.errors import KohortError


class Secured(Protocol):
    """How a listener authenticates its connections; see `ListenerSecurity`."""

    @property
    def tls(self) -> ListenerTls | None: ...

    def admit(self, connection: ClientConnection, authenticated: Callable[[ClientConnection], None]) -> bool:
        """Return whether the client is authenticated already; if not, `authenticated` is called when it is."""
        ...


class NewPartitionsCount(Protocol):
    """The number of times that topics got more partitions."""

    @property
    def count(self) -> int: ...


class ConnectionLoss(Protocol):
    """The component that reacts to a closed connection."""

    def lost(self, connection: ClientConnection) -> None: ...


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig

    @property
    def new_partitions(self) -> NewPartitionsCount: ...

    @property
    def member_connections(self) -> ConnectionLoss: ...

    @property
    def client_telemetry(self) -> ConnectionLoss: ...


_SWEEP_EVERY_S = 1.0
"""Shortest interval between sweeps; a frame that is never completed is found at most this late."""
_NO_IPV6 = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})
_MAX_CONNECTIONS = "there are max.connections connections already"
_LOOKS = 8
"""Checks of a connection within connections.max.idle.ms; it is closed late by at most one interval."""


class Sockets:
    """The sockets of one broker, from `listen` on."""

    connection_type: type[ClientConnection] = ClientConnection

    def __init__(self, broker: Dependencies, dispatch: Callable[[ClientConnection, bytes], None]) -> None:
        self._broker = broker
        self._dispatch = dispatch
        self._loop = asyncio.get_running_loop()
        self._flushes = FlushQueue(self._loop)
        self._connections: OrderedDict[ClientConnection, float] = OrderedDict()
        """When each connection is checked next, the earliest first; the interval between checks is the same for all."""
        self._throttled: dict[ClientConnection, None] = {}
        self._mid_frame: dict[ClientConnection, None] = {}
        """Connections on which an incomplete request arrived since their last check."""
        self._newcomers = Newcomers(self._loop.time)
        self._sweeper: asyncio.TimerHandle | None = None
        self._sweeps_at = 0.0
        self._closing = False
        self._accepted = 0
        """Number of connections that were accepted since the start."""
        self._servers: list[asyncio.Server] = []
        self._tls_servers: list[TlsServer] = []
        self.port = 0
        """The port of the first listener."""

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[ClientConnection]:
        return iter(self._connections)

    async def listen(self, listener: Listener, secured: Secured) -> int:
        """Listen on the listener's port, or a free one if 0, on all interfaces if its host is empty. Return the port.

        Raise KohortError.
        """
        host, port = listener.host, listener.port
        try:
            port = await self._listen(listener, secured, host or "0.0.0.0", port)
            if not host:
                await self._listen_on_ipv6(listener, secured, port)
        except OSError as error:
            for server in self._all_servers:
                server.close()
            raise KohortError(_listen_failure(host, port, error)) from error
        self.port = self.port or port
        return port

    async def _listen(self, listener: Listener, secured: Secured, host: str, port: int) -> int:
        new_connection = partial(self._new_connection, listener, secured)
        if secured.tls is not None:
            encrypted = TlsServer(
                secured.tls, new_connection, self._newcomers, self._refusal, timeout_s=self._authentication_s
            )
            self._tls_servers.append(encrypted)
            return await encrypted.start(host, port)
        server = await self._loop.create_server(new_connection, host, port, backlog=1024)
        self._servers.append(server)
        found: int = server.sockets[0].getsockname()[1]
        return found

    async def _listen_on_ipv6(self, listener: Listener, secured: Secured, port: int) -> None:
        """Listen on the same port of all IPv6 interfaces, if the machine has IPv6."""
        try:
            await self._listen(listener, secured, "::", port)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise

    @property
    def _all_servers(self) -> list[asyncio.Server | TlsServer]:
        return [*self._servers, *self._tls_servers]

    def stop_listening(self) -> None:
        """Accept no more connections."""
        self._closing = True
        for server in self._all_servers:
            server.close()
        if self._sweeper is not None:
            self._sweeper.cancel()

    async def close(self) -> None:
        """Send what is ready and close all connections."""
        self._flushes.run()
        for connection in list(self._connections):
            connection.close()
        for server in self._all_servers:
            await server.wait_closed()

    # Connections

    @property
    def accepted(self) -> int:
        """Number of connections so far, which is `accepted_as` of the newest one."""
        return self._accepted

    def _new_connection(self, listener: Listener, secured: Secured) -> ClientConnection:
        config = self._broker.config
        connection = self.connection_type(
            self._dispatch,
            partial(self._opened, secured),
            self._closed,
            self._flushes,
            self._incomplete_requests,
            max_frame=config.number("socket.request.max.bytes"),
            max_waiting=config.number("max.queued.requests.per.connection"),
        )
        connection.listener = listener.name
        self._accepted += 1
        connection.accepted_as = self._accepted
        return connection

    def _opened(self, secured: Secured, connection: ClientConnection) -> None:
        self._connections[connection] = self._loop.time() + self._check_interval_s
        connection.new_partitions_seen = self._broker.new_partitions.count
        if self._closing:
            connection.close()
        elif len(self._connections) > self._broker.config.number("max.connections"):
            connection.refuse(_MAX_CONNECTIONS)
        elif not secured.admit(connection, self._authenticated):
            # A connection with TLS was admitted before its handshake.
            refusal = None if secured.tls is not None else self._refusal(connection.host)
            if refusal is not None:
                connection.refuse(refusal)
            self._newcomers.add(connection, connection.host, connection.drop)
            self._sweep_within(_SWEEP_EVERY_S)
        else:
            self._sweep_within(self._check_interval_s)

    def _authenticated(self, connection: ClientConnection) -> None:
        self._newcomers.remove(connection)
        connection.max_frame = self._broker.config.number("socket.request.max.bytes")

    def _refusal(self, host: str) -> str | None:
        """Return why the host may not have another connection that is not authenticated; None if it may."""
        config = self._broker.config
        if self._closing:
            return "the broker is stopping"
        if len(self) >= config.number("max.connections"):
            return _MAX_CONNECTIONS
        if not self._newcomers.make_room(host, config.number("max.connections.unauthenticated")):
            return "there are max.connections.unauthenticated connections already"
        return None

    @property
    def _authentication_s(self) -> float:
        return self._broker.config.number("authentication.timeout.ms") / 1000

    def clients(self) -> Iterator[tuple[str, str]]:
        """Yield host and client ID of each open connection. The ID is empty before its first request."""
        return (connection.who for connection in self._connections)

    def _closed(self, connection: ClientConnection) -> None:
        self._connections.pop(connection, None)
        self._newcomers.remove(connection)
        self._mid_frame.pop(connection, None)
        if not self._closing:
            self._broker.member_connections.lost(connection)
        self._broker.client_telemetry.lost(connection)
        self._throttled.pop(connection, None)

    # Throttling

    def throttle(self, connection: ClientConnection) -> None:
        """Stop reading from the connection until `unthrottle`."""
        connection.throttle()
        self._throttled[connection] = None

    @property
    def throttled(self) -> bool:
        """Whether any connection is throttled."""
        return bool(self._throttled)

    def unthrottle(self) -> None:
        """Read again from all throttled connections."""
        throttled, self._throttled = self._throttled, {}
        for connection in throttled:
            connection.unthrottle()

    # Sweeps: examining every connection each second would be expensive

    @property
    def _check_interval_s(self) -> float:
        return self._broker.config.number("connections.max.idle.ms") / 1000 / _LOOKS

    def _incomplete_requests(self, connection: ClientConnection) -> None:
        self._mid_frame[connection] = None
        self._sweep_within(_SWEEP_EVERY_S)

    def _sweep_within(self, seconds: float) -> None:
        at = self._loop.time() + max(seconds, _SWEEP_EVERY_S)
        if self._sweeper is not None:
            if self._sweeps_at <= at:
                return
            self._sweeper.cancel()
        if not self._closing:
            self._sweeper, self._sweeps_at = self._loop.call_at(at, self._sweep), at

    def _sweep(self) -> None:
        now, self._sweeper = self._loop.time(), None
        self._close_incomplete_requests(now)
        self._newcomers.expire(self._authentication_s)
        self._expire_idle(now)
        if self._mid_frame or self._newcomers:
            self._sweep_within(_SWEEP_EVERY_S)
        elif self._connections:
            self._sweep_within(next(iter(self._connections.values())) - now)

    def _close_incomplete_requests(self, now: float) -> None:
        frame_s = self._broker.config.number("frame.read.timeout.ms") / 1000
        for connection in list(self._mid_frame):
            if connection.mid_frame_since is None:
                del self._mid_frame[connection]
            elif now - connection.mid_frame_since > frame_s:
                connection.refuse("a request did not arrive completely within frame.read.timeout.ms")

    def _expire_idle(self, now: float) -> None:
        idle_s, again_at = self._check_interval_s * _LOOKS, now + self._check_interval_s
        due = []
        for connection, at in self._connections.items():
            if at > now:
                break
            due.append(connection)
        for connection in due:
            self._connections[connection] = again_at
            self._connections.move_to_end(connection)
            if connection.is_idle(idle_s, now) and not connection.waiting:
                connection.expire()


def _listen_failure(host: str, port: int, error: OSError) -> str:
    host = host or "all interfaces"
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is taken: choose another with --listen, or port 0 for a free one."
    return f"Cannot listen on port {port} of {host}: {error.strerror or error}."
