"""Both logins of a connection if SASL ends at the gateway: the client's, and the gateway's at the broker.

Both are the code of a broker and of a client. Each is repeated before its session ends (KIP-368).
"""

import asyncio
import logging
from collections.abc import Callable
from struct import Struct
from typing import Protocol

from kohort.broker.net import BadFrame
from kohort.broker.security import ListenerSecurity
from kohort.client.metrics import NodeMetrics
from kohort.client.net import Authentication as OwnAuthentication
from kohort.client.security import Credentials
from kohort.errors import KafkaError
from kohort.gateway.framing import BadStream
from kohort.gateway.traffic import read_request, response_frame
from kohort.security import ANONYMOUS
from kohort.wire.codec import Message
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest

log = logging.getLogger("kohort.gateway")

SASL_REQUESTS = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
_VERSION = 1
"""Version of SaslHandshake and SaslAuthenticate: the first in which a broker tells the life of a session."""
_API_KEY = Struct(">h")


class ClientSide(Protocol):
    """The client's side of a connection; see `Link`."""

    peer: str

    def client_transport(self) -> asyncio.Transport: ...
    def to_client(self, frame: bytes) -> None: ...
    def drain(self) -> None: ...
    def close(self) -> None: ...


class ClientLogin:
    """The login of one client."""

    def __init__(self, side: ClientSide, security: ListenerSecurity, ended: Callable[[bool], None]) -> None:
        """`ended` is called with the result of the first login."""
        self._side = side
        self._ended = ended
        self._authentication = security.authentication(self, self._accept)
        self.is_refused = False
        """Whether the authentication has failed: no request is handled any more, and the connection is closed soon."""
        self.is_authenticated = False
        self.principal = ANONYMOUS

    def _accept(self) -> None:
        self.is_authenticated = True
        self._ended(True)

    def admits(self, head: memoryview) -> bool:
        """Return whether the request that begins with these bytes may be handled. Raises BadStream if it ends here."""
        try:
            self.is_refused = self._authentication.intercept(bytes(head[: _API_KEY.size]))
        except BadFrame as problem:
            raise BadStream(str(problem)) from None
        return not self.is_refused

    def request(self, frame: bytes) -> None:
        """Handle a request of SASL. Raises BadStream."""
        header, request = read_request(frame)
        call = _Call(self._side, header.api_key, header.api_version, header.correlation_id)
        if isinstance(request, SaslHandshakeRequest):
            self._authentication.handshake(call, request)
        elif isinstance(request, SaslAuthenticateRequest) and self._authentication.expects_token:
            self._authentication.authenticate(call, request)
        else:
            raise BadStream("a request of SASL has an unknown version or arrives out of turn")

    # The connection, as `Authentication` sees it

    @property
    def peer(self) -> str:
        """Address of the client."""
        return self._side.peer

    @property
    def transport(self) -> asyncio.Transport | None:
        """Transport of the client."""
        return self._side.client_transport()

    def stop_reading(self) -> None:
        """Take no more requests."""
        self._side.drain()

    def close(self) -> None:
        """Close the connection."""
        self._ended(False)
        self._side.close()


class _Call:
    """One request of SASL."""

    def __init__(self, side: ClientSide, key: int, version: int, correlation: int) -> None:
        self._side, self._key, self.version, self._correlation = side, key, version, correlation

    def reply(self, response: Message) -> None:
        """Answer the request."""
        self._side.to_client(response_frame(self._key, self.version, self._correlation, response))


class UpstreamSide(Protocol):
    """The broker's side of a connection; see `Link`."""

    def ask(self, request: Message, version: int) -> "asyncio.Future[Message]":
        """Send a request of the gateway's own to the broker, and return its response."""
        ...

    async def stop_for_login(self) -> None:
        """Send no more requests of the client, and return when the last one is complete."""

    def go_on_after_login(self) -> None: ...
    def close(self) -> None: ...


class UpstreamLogin:
    """The gateway's login on one connection to a broker: what `OwnAuthentication` needs."""

    def __init__(self, side: UpstreamSide, address: str, metrics: NodeMetrics, credentials: Credentials) -> None:
        self.address = address
        self.metrics = metrics
        self._side = side
        self._credentials = credentials
        self._loop = asyncio.get_running_loop()
        self._authentication = OwnAuthentication(self, credentials)

    async def log_in(self) -> None:
        """Log in. Raises KafkaError."""
        await self._authentication.authenticate(await self._credentials.client())

    def cancel(self) -> None:
        """Do not log in again."""
        self._authentication.close()

    def version_of(self, kind: type[Message]) -> int:
        """Return the version of a request of SASL."""
        return _VERSION

    def speaks(self, kind: type[Message]) -> bool:
        """Return whether brokers have the request: all with SASL do."""
        return True

    def send_first(self, request: Message, version: int) -> "asyncio.Future[Message]":
        """Send a request between those of the client."""
        return self._loop.create_task(self._send(request, version))

    async def _send(self, request: Message, version: int) -> Message:
        await self._side.stop_for_login()
        return await self._side.ask(request, version)

    def hold_requests(self) -> None:
        """Do nothing: `send_first` stops the requests of the client."""

    def release_requests(self) -> None:
        """Go on with the requests of the client."""
        self._side.go_on_after_login()

    def end(self, error: KafkaError) -> None:
        """Close the connection, because the login could not be repeated."""
        log.warning("the gateway cannot log in again at %s: %s", self.address, error)
        self._side.close()
