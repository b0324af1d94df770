"""SASL authentication of a connection, and its repetition before the session ends (KIP-368).

A broker takes no other request between SaslHandshake and the last SaslAuthenticate. So while a
connection authenticates again, its new requests wait, and those under way are answered first.
"""

import asyncio
import logging
import random
from typing import Protocol

from kohort.client.metrics import NodeMetrics
from kohort.client.net.versions import NEWEST_SPOKEN
from kohort.client.security import AuthenticationError, Credentials, no_sasl_error
from kohort.errors import ErrorCode, KafkaError
from kohort.model import Millis
from kohort.security.sasl import ClientDone, ClientFailed, SaslClient, Send
from kohort.wire.codec import Message
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_log = logging.getLogger(__name__)

_HANDSHAKE_VERSION = 1
"""From this version, tokens follow in SaslAuthenticate requests (KIP-152)."""
_AGAIN = (0.85, 0.95)
"""Range of the fraction of a session's lifetime after which to authenticate again, as in Java's client."""
_APART_S = 1.0
"""Brokers refuse to authenticate a connection twice within this time."""
_TOKEN_RETRY_S = 1.0


class Line(Protocol):
    """Parts of a connection that the authentication uses."""

    address: str
    metrics: NodeMetrics

    def version_of(self, kind: type[Message]) -> int: ...
    def speaks(self, kind: type[Message]) -> bool: ...
    def send_first(self, request: Message, version: int) -> "asyncio.Future[Message]": ...
    def hold_requests(self) -> None: ...
    def release_requests(self) -> None: ...
    def end(self, error: KafkaError) -> None: ...


class Authentication:
    """Authentication of one connection. `close` ends its repetition."""

    def __init__(self, line: Line, credentials: Credentials) -> None:
        self._line = line
        self._credentials = credentials
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._again: asyncio.Task[None] | None = None
        self._session_ends_at = 0.0
        self.count = 0
        """Number of times that this connection has been authenticated."""

    async def authenticate(self, machine: SaslClient) -> None:
        """Authenticate the connection. Raises KafkaError, one that is not retriable if the broker refuses."""
        line, credentials = self._line, self._credentials
        if not line.speaks(SaslHandshakeRequest) or line.version_of(SaslHandshakeRequest) < _HANDSHAKE_VERSION:
            raise no_sasl_error(line.address)
        choice = SaslHandshakeRequest(mechanism=credentials.mechanism)
        offered = await line.send_first(choice, _HANDSHAKE_VERSION)
        assert isinstance(offered, SaslHandshakeResponse)
        # A broker handles the handshake late if it holds a request before it, such as a JoinGroup.
        begun = self._loop.time()
        if offered.error_code == ErrorCode.ILLEGAL_SASL_STATE and self.count:
            detail = f"{line.address} does not let the connection authenticate again: the client opens another one."
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, detail)
        if offered.error_code:
            raise credentials.handshake_error(line.address, offered.error_code, offered.mechanisms)
        lifetime_ms = await self._converse(machine)
        self.count += 1
        if lifetime_ms > 0:
            self._session_ends_at = begun + lifetime_ms / 1000
            # Spread, so that the connections of many clients do not authenticate at once.
            after_s = lifetime_ms / 1000 * random.uniform(*_AGAIN)
            if lifetime_ms / 1000 > _APART_S:
                after_s = max(after_s, _APART_S)
            self._timer = self._loop.call_at(begun + after_s, self._start_again)

    async def _converse(self, machine: SaslClient) -> Millis:
        line, credentials = self._line, self._credentials
        version = min(NEWEST_SPOKEN[SaslAuthenticateRequest.KEY], line.version_of(SaslAuthenticateRequest))
        token = machine.start()
        while True:
            answer = await line.send_first(SaslAuthenticateRequest(auth_bytes=token), version)
            assert isinstance(answer, SaslAuthenticateResponse)
            if answer.error_code:
                raise credentials.rejection(line.address, answer.error_code, answer.error_message, machine)
            match machine.receive(bytes(answer.auth_bytes)):
                case Send(token):
                    continue
                case ClientDone():
                    return answer.session_lifetime_ms
                case ClientFailed(reason):
                    raise credentials.distrust(line.address, reason)

    def close(self) -> None:
        """Do not authenticate again."""
        if self._timer is not None:
            self._timer.cancel()
        if self._again is not None and self._again is not asyncio.current_task():
            self._again.cancel()

    def _start_again(self) -> None:
        self._again = self._loop.create_task(self._repeat(), name=f"kohort-authenticate {self._line.address}")

    async def _repeat(self) -> None:
        line = self._line
        counts = line.metrics.client
        try:
            machine = await self._next_machine()
            line.hold_requests()
            began = self._loop.time()
            await self.authenticate(machine)
            now = self._loop.time()
            counts.reauthenticated.add((now - began) * 1000, now)
        except KafkaError as problem:
            if isinstance(problem, AuthenticationError):
                counts.rejected_again.add(1, self._loop.time())
                _log.warning("authentication refused: %s", problem.sentence)
            line.end(problem)
            return
        line.release_requests()

    async def _next_machine(self) -> SaslClient:
        """Return a machine. While no token can be had, try until the session has ended."""
        while True:
            try:
                return await self._credentials.client()
            except KafkaError as problem:
                if not problem.retriable or self._loop.time() + _TOKEN_RETRY_S > self._session_ends_at:
                    raise
                _log.warning("no token to authenticate again yet: %s", problem.sentence)
            await asyncio.sleep(_TOKEN_RETRY_S)


def locks_accounts(error: KafkaError) -> bool:
    """Return whether a broker has refused the credentials, and might lock the account if they come often."""
    return isinstance(error, AuthenticationError) and error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
