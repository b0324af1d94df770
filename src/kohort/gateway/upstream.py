"""Connections to the upstream brokers, and the gateway's own requests for the brokers' addresses."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kohort.client import Admin, ClientOptions
from kohort.client.security import tls_context, tls_error
from kohort.errors import KohortError
from kohort.gateway.addresses import Address, Brokers

log = logging.getLogger("kohort.gateway")

_CONNECT_S = 5.0
_LOOK_UP_MS = 8_000
_AGAIN_S = 2.0
"""Shortest time between two lookups."""


class Upstream:
    """The brokers of the cluster."""

    def __init__(
        self, bootstrap: Sequence[Address], options: Mapping[str, Any], brokers: Brokers, *, refresh_s: float
    ) -> None:
        """Read the options of the client. Raises ConfigError."""
        self.brokers = brokers
        self._bootstrap = bootstrap
        servers = ",".join(map(str, bootstrap))
        self._options = {
            "client_id": "kohort-gateway",
            **options,
            "bootstrap_servers": servers,
            "default_api_timeout_ms": _LOOK_UP_MS,
        }
        self._read = ClientOptions.read(
            {name: value for name, value in self._options.items() if name in ClientOptions.__dataclass_fields__}
        )
        self._tls = tls_context(self._read)
        self._refresh_s = refresh_s
        self._unreachable: set[Address] = set()
        self._stale = asyncio.Event()
        self._refreshing: asyncio.Task[None] | None = None
        self._cannot_look_up = False

    @property
    def own_certificate(self) -> bool:
        """Whether the gateway presents a certificate to brokers."""
        return self._read.ssl_certfile is not None or self._read.ssl_certdata is not None

    @property
    def unreachable(self) -> int:
        """Number of addresses at which no broker could be reached the last time."""
        return len(self._unreachable)

    @property
    def client_options(self) -> Mapping[str, Any]:
        """Options of a client that connects as the gateway."""
        return {name: value for name, value in self._options.items() if name != "default_api_timeout_ms"}

    async def start(self, found: Callable[[int], None]) -> None:
        """Begin to look up the brokers' addresses. `found` is called with each node ID, once."""
        self._refreshing = asyncio.get_running_loop().create_task(self._refresh(found))

    async def close(self) -> None:
        """End the lookups."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            with suppress(asyncio.CancelledError):
                await self._refreshing

    async def connect(self, node_id: int | None, protocol: asyncio.Protocol) -> Address:
        """Connect to a broker, or to any if its address is unknown. Return the address. Raises OSError."""
        failed: OSError | None = None
        for address in self._to_try(node_id):
            try:
                await asyncio.wait_for(self._connect(address, protocol), _CONNECT_S)
            except OSError as problem:  # ssl.SSLError and TimeoutError are OSErrors
                failed = problem
                self._failed(address, problem)
            else:
                if address in self._unreachable:
                    self._unreachable.discard(address)
                    log.warning("upstream broker %s can be reached again", address)
                return address
        assert failed is not None
        raise failed

    def _to_try(self, node_id: int | None) -> list[Address]:
        known = self.brokers.upstream
        if node_id in known and not self._unreachable >= set(known.values()):
            return [known[node_id]]
        # If no known broker can be reached, the bootstrap servers may know where they have gone.
        first = [known[node_id]] if node_id in known else []
        return list(dict.fromkeys([*first, *self._bootstrap, *known.values()]))

    async def _connect(self, address: Address, protocol: asyncio.Protocol) -> None:
        await asyncio.get_running_loop().create_connection(lambda: protocol, address.host, address.port, ssl=self._tls)

    def _failed(self, address: Address, problem: OSError) -> None:
        self._stale.set()
        if address in self._unreachable:
            return
        self._unreachable.add(address)
        if isinstance(problem, ssl.SSLError):
            why = tls_error(str(address), problem).sentence
        else:
            why = str(problem) or f"no connection within {_CONNECT_S:g} s"
        log.warning(
            "upstream broker %s cannot be reached: %s; its clients are disconnected and try again", address, why
        )

    # The gateway's own requests

    async def _refresh(self, found: Callable[[int], None]) -> None:
        seen: set[int] = set()
        while True:
            self._stale.clear()
            try:
                async with Admin(**self._options) as admin:
                    described = await admin.describe_cluster()
            except KohortError as problem:
                if not self._cannot_look_up:
                    log.warning(
                        "the addresses of the brokers cannot be looked up, so they are learned from responses to"
                        " clients: %s",
                        problem,
                    )
                self._cannot_look_up = True
            else:
                self._cannot_look_up = False
                for node_id, broker in sorted(described.brokers.items()):
                    self.brokers.learn(node_id, Address(broker.host, broker.port))
                for node_id in sorted(described.brokers.keys() - seen):
                    seen.add(node_id)
                    found(node_id)
            await asyncio.sleep(_AGAIN_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stale.wait(), max(self._refresh_s - _AGAIN_S, 0))
