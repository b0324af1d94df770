"""The gateway: its listening sockets, one for each upstream broker, and its connections."""

import asyncio
import errno
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from kohort.errors import KohortError
from kohort.gateway.addresses import Address, Addresses
from kohort.gateway.group_requests import GroupRequests
from kohort.gateway.link import Link

log = logging.getLogger("kohort.gateway")

_CONNECT_S = 10.0
_MOST_NODES = 10_000
_BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """Options of a gateway."""

    upstream: Sequence[Address]
    """Some brokers of the cluster, for clients that do not know a broker yet."""
    listen: Address = Address("127.0.0.1", 9192)  # noqa: RUF009 - frozen
    """Address for clients that do not know a broker yet; port 0 takes a free port for it and for each broker."""
    advertised_host: str | None = None
    """Host in the addresses that clients receive; None for the host on which the gateway listens."""
    first_node_id: int = 0
    """Node ID whose port is the one after that of `listen`; the others follow by node ID."""
    max_frame: int = 100 << 20
    """Maximum size of a request or a response, in bytes."""
    max_connections: int = 10_000
    hold_ms: int = 15_000
    """Maximum time for which a heartbeat without news is held, in milliseconds."""


class Gateway:
    """A gateway on the running event loop: `async with Gateway(options) as gateway: gateway.address`."""

    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        self.max_frame = options.max_frame
        self.addresses = Addresses(self._open_for, moved=self._moved)
        self.groups: GroupRequests
        self._places: dict[int, Address] = {}
        """The gateway's address in place of each broker."""
        self._servers: list[asyncio.Server] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._links: set[Link] = set()
        self._unreachable: set[Address] = set()
        self._port = 0
        self._is_full = False

    @property
    def address(self) -> Address:
        """Address for clients that do not know a broker yet."""
        return Address(self._host, self._port)

    @property
    def connections(self) -> int:
        """Number of clients' connections."""
        return len(self._links)

    @property
    def _host(self) -> str:
        return self._options.advertised_host or self._options.listen.host

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen for clients. Raises KohortError if the address cannot be used."""
        self.groups = GroupRequests(self._options.hold_ms)
        self._port = self._listen(None, self._options.listen.port)
        await asyncio.gather(*self._starting)

    async def stop(self) -> None:
        """Close all sockets and connections."""
        for server in self._servers:
            server.close()
        for link in list(self._links):
            link.abort()
        self.groups.close()
        await asyncio.gather(*self._starting)
        for server in self._servers:
            await server.wait_closed()

    # Addresses of brokers

    def _open_for(self, node_id: int) -> Address:
        place = self._places.get(node_id)
        if place is None:
            if len(self._places) >= _MOST_NODES:
                raise KohortError(f"The cluster names more than {_MOST_NODES} brokers.")
            place = self._places[node_id] = Address(self._host, self._listen(node_id, self._port_of(node_id)))
            log.info("broker=%d upstream=%s is at %s", node_id, self.addresses.upstream[node_id], place)
        return place

    def _port_of(self, node_id: int) -> int:
        if self._options.listen.port == 0:
            return 0
        port = self._options.listen.port + 1 + node_id - self._options.first_node_id
        if not self._options.listen.port < port < 1 << 16:
            raise KohortError(
                f"Broker {node_id} has no port: set --first-node-id to the lowest node ID of the cluster, and leave as"
                " many ports free after that of --listen as there are node IDs."
            )
        return port

    def _listen(self, node_id: int | None, port: int) -> int:
        """Bind now, so that the address can be told to a client, and accept soon. Raises KohortError."""
        host = self._options.listen.host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
            listening.listen(_BACKLOG)
            listening.setblocking(False)
        except OSError as problem:
            listening.close()
            where = "" if node_id is None else f" for broker {node_id}"
            why = "is taken" if problem.errno == errno.EADDRINUSE else f"cannot be used: {problem.strerror}"
            raise KohortError(f"Port {port} of {host}{where} {why}. Choose another address with --listen.") from problem
        starting = asyncio.get_running_loop().create_task(self._serve(node_id, listening))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        bound: int = listening.getsockname()[1]
        return bound

    async def _serve(self, node_id: int | None, listening: socket.socket) -> None:
        new = partial(self._new_link, node_id)
        self._servers.append(await asyncio.get_running_loop().create_server(new, sock=listening, backlog=_BACKLOG))

    def _new_link(self, node_id: int | None) -> asyncio.Protocol:
        return Link(self, node_id).client

    def _moved(self, node_id: int, old: Address, new: Address) -> None:
        log.warning("broker=%d has moved from %s to %s: new connections go there", node_id, old, new)

    # Connections

    def opened(self, link: Link) -> None:
        """Count a connection."""
        self._links.add(link)
        if len(self._links) > self._options.max_connections:
            if not self._is_full:
                log.warning(
                    "refusing connections: there are %d already (--max-connections)", self._options.max_connections
                )
            self._is_full = True
            link.abort()

    def closed(self, link: Link) -> None:
        """Forget a connection."""
        self._links.discard(link)
        self._is_full = self._is_full and len(self._links) >= self._options.max_connections

    async def connect(self, link: Link, upstream: asyncio.Protocol) -> None:
        """Open the upstream connection of a client. Raises OSError or TimeoutError."""
        known = None if link.node_id is None else self.addresses.upstream.get(link.node_id)
        tried = [known] if known is not None else self._options.upstream
        for number, address in enumerate(tried, 1):
            try:
                await asyncio.wait_for(self._connect(address, upstream), _CONNECT_S)
            except (OSError, TimeoutError) as problem:
                if address not in self._unreachable:
                    self._unreachable.add(address)
                    log.warning(
                        "upstream broker %s cannot be reached: %s; its clients are disconnected and try again",
                        address,
                        str(problem) or f"no connection within {_CONNECT_S:g} s",
                    )
                if number == len(tried):
                    raise
            else:
                if address in self._unreachable:
                    self._unreachable.discard(address)
                    log.warning("upstream broker %s can be reached again", address)
                return

    async def _connect(self, address: Address, upstream: asyncio.Protocol) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: upstream, address.host, address.port)
