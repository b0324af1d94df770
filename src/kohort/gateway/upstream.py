"""Connections to the upstream brokers, and the gateway's own requests for the brokers' addresses."""

import asyncio
import errno
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kohort.broker.groups import GATEWAY_CLIENT_ID
from kohort.client import Admin, ClientOptions
from kohort.client.metrics import NetworkMetrics, Sampling
from kohort.client.security import AuthenticationError, Credentials, tls_context, tls_error
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.gateway.addresses import Address, Brokers
from kohort.gateway.login import UpstreamLogin, UpstreamSide

log = logging.getLogger("kohort.gateway")

_CONNECT_S = 5.0
_LOOK_UP_MS = 8_000
_REFUSED_S = 5.0
"""Time without logins after one that was refused: many clients must not lock the account."""
_LOGIN_S = 10.0
_AGAIN_S = 2.0
"""Shortest time between two lookups."""
_ITSELF_S = 1.0
"""Time without connections to an address that has led to the gateway itself."""
_NO_FILES = frozenset({errno.EMFILE, errno.ENFILE})
_NO_FILES_AGAIN_S = 60.0
"""Shortest time between two lines that say that there are too many open files."""


class Upstream:
    """The brokers of the cluster."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        options: Mapping[str, Any],
        brokers: Brokers,
        *,
        refresh_s: float,
        reached: Callable[[Address], None],
        admin: type[Admin] = Admin,
    ) -> None:
        """Read the options of the client. Raises ConfigError.

        `reached` is called with the address of a broker that can be reached again.
        """
        self.brokers = brokers
        self._reached = reached
        self._bootstrap = bootstrap
        self._admin = admin
        servers = ",".join(map(str, bootstrap))
        self._options = {
            "client_id": GATEWAY_CLIENT_ID,
            **options,
            "bootstrap_servers": servers,
            "default_api_timeout_ms": _LOOK_UP_MS,
        }
        self._read = ClientOptions.read(
            {name: value for name, value in self._options.items() if name in ClientOptions.__dataclass_fields__}
        )
        self._tls = tls_context(self._read)
        self._credentials = Credentials.of(self._read, servers)
        self._metrics = NetworkMetrics(Sampling()).node(0)
        self._refused_until = 0.0
        self._login_fails = False
        self._refresh_s = refresh_s
        self._unreachable: set[Address] = set()
        self._silent: set[Address] = set()
        """Addresses whose last connection was closed by the broker without any response to a client."""
        self._itself: dict[Address, float] = {}
        """Addresses that led to the gateway itself, with the last time."""
        self._no_files_at = -_NO_FILES_AGAIN_S
        """Time at which a connection last failed because there were too many open files."""
        self._stale = asyncio.Event()
        self._refreshing: asyncio.Task[None] | None = None
        self._visiting: asyncio.Task[None] | None = None
        self._cannot_look_up = False

    @property
    def has_tls(self) -> bool:
        """Whether connections to brokers have TLS."""
        return self._tls is not None

    @property
    def own_certificate(self) -> bool:
        """Whether the gateway presents a certificate to brokers."""
        return self._read.ssl_certfile is not None or self._read.ssl_certdata is not None

    @property
    def user(self) -> str | None:
        """Name with which the gateway logs in, or the mechanism if it has none; None without a login."""
        if self._credentials is None:
            return None
        return self._read.sasl_plain_username or f"that of its {self._credentials.mechanism} token"

    async def log_in(self, side: UpstreamSide, address: Address) -> UpstreamLogin | None:
        """Log in on a connection; None without a login. Raises KafkaError."""
        if self._credentials is None:
            return None
        loop = asyncio.get_running_loop()
        if loop.time() < self._refused_until:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the last login was refused a moment ago")
        login = UpstreamLogin(side, str(address), self._metrics, self._credentials)
        try:
            async with asyncio.timeout(_LOGIN_S):
                await login.log_in()
        except TimeoutError:
            problem = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{address} did not answer within {_LOGIN_S:g} s")
            self._login_failed(problem)
            raise problem from None
        except KafkaError as problem:
            if isinstance(problem, AuthenticationError):
                self._refused_until = loop.time() + _REFUSED_S
            self._login_failed(problem)
            raise
        if self._login_fails:
            log.warning("the gateway can log in again at %s", address)
            self._login_fails = False
        return login

    def _login_failed(self, problem: KafkaError) -> None:
        if not self._login_fails:
            log.error("the gateway cannot log in, so its clients are disconnected: %s", problem)
        self._login_fails = True

    def is_reachable(self, address: Address) -> bool:
        """Return whether the last connection to that address was made, if there was any."""
        return address not in self._unreachable

    @property
    def unreachable(self) -> int:
        """Number of addresses at which no broker could be reached the last time."""
        return len(self._unreachable)

    def left(self, address: Address) -> None:
        """Note that a broker has another address now. Nobody tries this one again, unless it is a bootstrap server."""
        if address not in self._bootstrap:
            self._unreachable.discard(address)
            self._itself.pop(address, None)
            self._silent.discard(address)

    def ended(self, address: Address, *, is_unanswered: bool, has_answered: bool) -> None:
        """Note that a connection is closed: by the broker without any response, or after one."""
        if has_answered:
            self._silent.discard(address)
        elif is_unanswered and address not in self._silent and address not in self._itself:
            self._silent.add(address)
            log.warning(
                "upstream broker %s closes connections before its first response, so clients are disconnected: is it"
                " stopping, does it expect TLS (-X security.protocol), or is its limit of connections reached"
                " (max.connections.per.ip counts all clients of the gateway as one)?",
                address,
            )

    def is_itself(self, address: Address) -> None:
        """Note that a connection to this address has arrived at the gateway itself."""
        if address not in self._itself:
            log.error(
                "upstream broker %s is the gateway itself, so its clients are disconnected: give the brokers' own"
                " addresses with --upstream, and in their advertised.listeners",
                address,
            )
        self._itself[address] = asyncio.get_running_loop().time()
        self._unreachable.add(address)

    @property
    def client_options(self) -> Mapping[str, Any]:
        """Options of a client that connects as the gateway."""
        return {name: value for name, value in self._options.items() if name != "default_api_timeout_ms"}

    async def start(self, found: Callable[[int], None]) -> None:
        """Begin to look up the brokers' addresses. `found` is called with each node ID, once."""
        self._refreshing = asyncio.get_running_loop().create_task(self._refresh(found))

    async def close(self) -> None:
        """End the lookups."""
        for task in (self._refreshing, self._visiting):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

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
                if address not in self._itself:
                    self._succeeded(address)
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
        """Raise OSError, also for an address that a resolver or a socket does not take: a broker may name any."""
        if not 0 < address.port < 1 << 16:
            raise OSError(f"{address.port} is not a port")
        loop = asyncio.get_running_loop()
        if address in self._itself and loop.time() < self._itself[address] + _ITSELF_S:
            raise OSError("it is the gateway itself")
        try:
            await loop.create_connection(lambda: protocol, address.host, address.port, ssl=self._tls)
        except ValueError as problem:  # such as UnicodeError
            raise OSError(f"the host has no valid name: {problem}") from problem

    def _succeeded(self, address: Address) -> None:
        self._itself.pop(address, None)
        if address in self._unreachable:
            self._unreachable.discard(address)
            log.warning("upstream broker %s can be reached again", address)
            self._reached(address)

    def _failed(self, address: Address, problem: OSError) -> None:
        if problem.errno in _NO_FILES:
            self._no_files(problem)
            return
        self._stale.set()
        if address in self._unreachable:
            return
        self._unreachable.add(address)
        log.warning(
            "upstream broker %s cannot be reached: %s; its clients are disconnected and try again",
            address,
            self._reason(address, problem),
        )

    def _no_files(self, problem: OSError) -> None:
        """Say that this process, not a broker, is the reason why clients are disconnected."""
        now = asyncio.get_running_loop().time()
        if now >= self._no_files_at + _NO_FILES_AGAIN_S:
            log.error(
                "no connection to a broker can be opened, so clients are disconnected: %s; raise the limit of open"
                " files (ulimit -n) to more than twice max.connections, or lower max.connections",
                problem.strerror,
            )
        self._no_files_at = now

    def _reason(self, address: Address, problem: OSError) -> str:
        if self._tls is not None and isinstance(problem, ssl.SSLError | ConnectionResetError | ConnectionAbortedError):
            return tls_error(str(address), problem).sentence
        if isinstance(problem, TimeoutError) and problem.errno is None:
            return f"no connection within {_CONNECT_S:g} s"
        return str(problem) or type(problem).__name__

    # The gateway's own requests

    async def _refresh(self, found: Callable[[int], None]) -> None:
        seen: set[int] = set()
        while True:
            self._stale.clear()
            try:
                async with self._admin(**self._options) as admin:
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
                if self._cannot_look_up:
                    log.warning("the addresses of the brokers can be looked up again")
                self._cannot_look_up = False
                for node_id, broker in sorted(described.brokers.items()):
                    self.brokers.learn(node_id, Address(broker.host, broker.port))
                for node_id in sorted(described.brokers.keys() - seen):
                    seen.add(node_id)
                    found(node_id)
                if self._visiting is None or self._visiting.done():
                    self._visiting = asyncio.get_running_loop().create_task(self._visit_all())
            await asyncio.sleep(_AGAIN_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stale.wait(), max(self._refresh_s - _AGAIN_S, 0))

    async def _visit_all(self) -> None:
        """Connect to each broker for a moment, so that one of ours knows that its clients use a gateway.

        `MemberConnections` there gives their members more time to come back.
        """
        for address in dict.fromkeys(self.brokers.upstream.values()):
            as_gateway = {"bootstrap_servers": str(address), "client_id": GATEWAY_CLIENT_ID}
            try:
                async with self._admin(**{**self._options, **as_gateway}) as admin:
                    await admin.describe_cluster()
            except KohortError as problem:
                log.info("no answer from upstream=%s: %s", address, problem)
            else:
                self._succeeded(address)
