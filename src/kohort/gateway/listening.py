"""Listening sockets of one listener: one port for each upstream broker, or one for all and their names in TLS."""

import asyncio
import errno
import logging
import re
import socket
from collections.abc import Callable
from functools import partial
from typing import Protocol

from kohort.broker.config import Listener, machine_name
from kohort.broker.net import ListenerTls, Newcomers, TlsServer, asked_name
from kohort.errors import KohortError
from kohort.gateway.addresses import Address, Addresses, Brokers

log = logging.getLogger("kohort.gateway")

_MOST_NODES = 10_000
_BACKLOG = 1024


class Admission(Protocol):
    """Who may connect; see `Gateway`."""

    newcomers: Newcomers
    handshake_s: float

    def refusal(self, host: str) -> str | None:
        """Return why the host may not begin a TLS handshake; None if it may."""


def bind(host: str | None, port: int) -> socket.socket:
    """Return a socket that listens at that address; on all interfaces if there is no host. Raises OSError."""
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
    family, *_, address = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
        0
    ]
    return socket.create_server((address[0], port), family=family, backlog=_BACKLOG)


NewLink = Callable[["Doors", int | None], asyncio.BaseProtocol]
"""Returns the protocol of a client's connection to the port of this node, or of the bootstrap port if None."""


class Doors:
    """The sockets of one listener. Its clients receive the addresses that `addresses` has."""

    def __init__(
        self,
        listener: Listener,
        brokers: Brokers,
        admission: Admission,
        new_link: NewLink,
        *,
        first_node_id: int,
        sni_domain: str | None,
        bind: Callable[[str | None, int], socket.socket] = bind,
    ) -> None:
        """Read the key store. Raises ConfigError. `bind` returns a socket that listens, or raises OSError."""
        self.addresses = Addresses(self._place_of, brokers)
        self.name = listener.name
        self._listener = listener
        self._admission = admission
        self._new_link = new_link
        self._bind = bind
        self._first_node_id = first_node_id
        self._sni_domain = sni_domain
        self._named = (
            None if sni_domain is None else re.compile(rf"broker-(\d{{1,9}})\.{re.escape(sni_domain.lower())}")
        )
        self._tls = ListenerTls(listener, asyncio.get_running_loop().time) if listener.protocol.tls else None
        self._places: dict[int, Address] = {}
        """The gateway's address in place of each broker."""
        self._without_place: set[int] = set()
        """Brokers for which there is none to be had."""
        self._servers: list[asyncio.Server | TlsServer] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._port = 0

    @property
    def address(self) -> Address:
        """Address for clients that do not know a broker yet."""
        told = self._listener.advertised
        return Address(told.host, told.port or self._port) if told else Address(self._own_host, self._port)

    @property
    def _own_host(self) -> str:
        return self._listener.host or machine_name()

    async def open(self) -> None:
        """Listen for clients that do not know a broker yet. Raises KohortError."""
        self._port = self._listen(None, self._listener.port)
        await asyncio.gather(*self._starting)

    def stop_listening(self) -> None:
        """Accept no more connections."""
        for server in self._servers:
            server.close()

    async def close(self) -> None:
        """Close all sockets."""
        await asyncio.gather(*self._starting)
        self.stop_listening()
        for server in self._servers:
            await server.wait_closed()

    def node_of(self, transport: asyncio.BaseTransport, port_of: int | None) -> int | None:
        """Return the broker that a client wants: that of its port, or of the name to which it connects."""
        if self._named is None:
            return port_of
        found = self._named.fullmatch(asked_name(transport) or "")
        return None if found is None else int(found[1])

    def _place_of(self, node_id: int) -> Address | None:
        try:
            place = self.open_for(node_id)
        except KohortError as problem:
            if node_id not in self._without_place and len(self._without_place) < _MOST_NODES:
                self._without_place.add(node_id)
                log.error("listener=%s clients cannot use broker=%d: %s", self._listener.name, node_id, problem)
            return None
        self._without_place.discard(node_id)
        return place

    def open_for(self, node_id: int) -> Address:
        """Return the gateway's address for a broker, and listen there. Raises KohortError."""
        place = self._places.get(node_id)
        if place is None:
            if len(self._places) >= _MOST_NODES:
                raise KohortError(f"The cluster names more than {_MOST_NODES} brokers.")
            place = self._places[node_id] = self._new_place(node_id)
            log.info("listener=%s broker=%d is at %s", self._listener.name, node_id, place)
        return place

    def _new_place(self, node_id: int) -> Address:
        told = self.address
        if self._sni_domain is not None:
            return Address(f"broker-{node_id}.{self._sni_domain}", told.port)
        offset = 1 + node_id - self._first_node_id
        port = self._listener.port + offset if self._listener.port else 0
        advertised = told.port + offset if port else 0
        if offset < 1 or port >= 1 << 16 or advertised >= 1 << 16:
            raise KohortError(
                f"Broker {node_id} has no port: give the node IDs of the cluster with --node-ids, and leave as many"
                " ports free after that of --listen as there are node IDs."
            )
        bound = self._listen(node_id, port)
        return Address(told.host, advertised or bound)

    def _listen(self, node_id: int | None, port: int) -> int:
        """Bind now, so that the address can be told to a client, and accept soon. Raises KohortError."""
        host = self._listener.host
        try:
            listening = self._bind(host, port)
        except OSError as problem:
            where = "" if node_id is None else f" for broker {node_id}"
            why = "is taken" if problem.errno == errno.EADDRINUSE else f"cannot be used: {problem.strerror}"
            raise KohortError(
                f"Port {port} of {host or 'all interfaces'}{where} {why}. Choose another address with --listen."
            ) from problem
        self._serve(node_id, listening)
        bound: int = listening.getsockname()[1]
        return bound

    def _serve(self, node_id: int | None, listening: socket.socket) -> None:
        new = partial(self._new_link, self, node_id)
        if self._tls is not None:
            admission = self._admission
            encrypted = TlsServer(
                self._tls, new, admission.newcomers, admission.refusal, timeout_s=admission.handshake_s
            )
            encrypted.serve(listening)
            self._servers.append(encrypted)
            return
        listening.setblocking(False)
        starting = asyncio.get_running_loop().create_task(self._start(new, listening))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)

    async def _start(self, new: Callable[[], asyncio.BaseProtocol], listening: socket.socket) -> None:
        server = await asyncio.get_running_loop().create_server(new, sock=listening, backlog=_BACKLOG)
        self._servers.append(server)
