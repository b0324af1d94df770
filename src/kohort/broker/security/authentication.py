"""SASL authentication of one connection (KIP-43, KIP-152), and its repetition before it expires (KIP-368).

    the client sends        the broker expects next
    ApiVersions             ApiVersions or SaslHandshake
    SaslHandshake           SaslAuthenticate, or after version 0 a bare token
    SaslAuthenticate        SaslAuthenticate, until the mechanism is done; then any request

Any other request closes the connection without an answer. So it does in Kafka, which answers it only where it expects
SaslAuthenticate.
"""

import asyncio
import logging
import struct
from collections.abc import Callable
from typing import Protocol

from kohort.broker.net import BadFrame
from kohort.broker.security.mechanisms import Mechanisms
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.printable import printable
from kohort.security import user_principal
from kohort.security.sasl import MAX_TOKEN_BYTES, Done, Failed, SaslServer, Send
from kohort.wire.codec import Message
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

log = logging.getLogger("kohort.broker")

_api_key = struct.Struct(">h").unpack_from
_size = struct.Struct(">i").pack
_REPEAT_AT_MOST_MS = 1_000
"""Shortest time between two repetitions of a connection's authentication, as in Kafka."""
_LONGEST_REASON = 300


class Connection(Protocol):
    """Connection of a client."""

    principal: str

    @property
    def peer(self) -> str: ...
    @property
    def transport(self) -> asyncio.Transport | None: ...
    def stop_reading(self) -> None: ...
    def close(self) -> None: ...


class Request(Protocol):
    """Request of a client that waits for its answer."""

    @property
    def version(self) -> int: ...
    def reply(self, response: Message) -> None: ...


class Authentication:
    """The authentication of one connection. As its `gate`, it decides which requests are handled."""

    def __init__(
        self,
        connection: Connection,
        listener: str,
        mechanisms: Mechanisms,
        *,
        now: Callable[[], Millis],
        failed_delay_s: float,
        reauthenticate_ms: Millis,
        authenticated: Callable[[], None],
    ) -> None:
        """`authenticated` is called when the client is first authenticated."""
        self._connection = connection
        self._listener = listener
        self._mechanisms = mechanisms
        self._now = now
        self._failed_delay_s = failed_delay_s
        self._reauthenticate_ms = reauthenticate_ms
        self._authenticated = authenticated
        self._server: SaslServer | None = None
        self._mechanism = ""
        self._bare_tokens = False
        self._failed = False
        self._other_mechanism: str | None = None
        """Mechanism that the client chose for its reauthentication, which must use its first mechanism."""
        self._principal: str | None = None
        """Principal of the last successful authentication."""
        self._principal_mechanism = ""
        self._repeated_at: Millis | None = None
        self._expires_at: Millis | None = None

    # As the connection's gate

    def intercept(self, frame: bytes) -> bool:
        """Return whether the frame is handled, as a bare token is. Raise BadFrame for a request out of turn."""
        if self._failed:
            raise BadFrame("a request follows an authentication that failed")
        if self._bare_tokens:
            self._receive_bare(frame)
            return True
        if self._other_mechanism is not None:
            # As in Kafka, the handshake is answered, and the next request is not.
            first = self._principal_mechanism
            reason = f"the client authenticated with {first}, and may not change to {self._other_mechanism}"
            self._fail(lambda: None, reason)
            return True
        if len(frame) < 2:
            return False  # the dispatcher rejects it
        (key,) = _api_key(frame)
        if self._server is not None:
            expected = key == ApiKey.SASL_AUTHENTICATE
        elif self._principal is None:
            expected = key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE)
        else:
            expired = self._expires_at is not None and self._now() >= self._expires_at
            expected = not expired or key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE)
            if not expected:
                raise BadFrame("the client did not authenticate again before its session expired")
        if not expected:
            raise BadFrame(f"request {key} arrived before the client was authenticated")
        return False

    # Requests

    @property
    def expects_token(self) -> bool:
        """Whether the client chose a mechanism that is not done yet."""
        return self._server is not None

    def handshake(self, call: Request, request: SaslHandshakeRequest) -> None:
        """Begin an authentication with the mechanism that the client chooses."""
        now = self._now()
        if self._principal is not None:
            too_soon = self._repeated_at is not None and now - self._repeated_at < _REPEAT_AT_MOST_MS
            if too_soon or (self._reauthenticate_ms == 0 and self._expires_at is None):
                call.reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
                return
            self._repeated_at = now
        names = list(self._mechanisms.names)
        server = self._mechanisms.server(request.mechanism)
        if server is None:
            answer = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=names)
            self._fail(lambda: call.reply(answer), f"the listener does not offer {request.mechanism[:100]!r}")
            return
        if self._principal is not None and request.mechanism != self._principal_mechanism:
            self._other_mechanism = request.mechanism
        else:
            self._server, self._mechanism = server, request.mechanism
            self._bare_tokens = call.version == 0
        call.reply(SaslHandshakeResponse(mechanisms=names))

    def authenticate(self, call: Request, request: SaslAuthenticateRequest) -> None:
        """Pass a token to the mechanism, and return its token."""
        step = self._step(request.auth_bytes)
        if isinstance(step, Failed):
            answer = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=step.sentence, auth_bytes=step.token
            )
            self._fail(lambda: call.reply(answer), step.reason)
            return
        lifetime = self._accept(step) if isinstance(step, Done) else 0
        call.reply(SaslAuthenticateResponse(auth_bytes=step.token, session_lifetime_ms=lifetime))

    def _receive_bare(self, token: bytes) -> None:
        step = self._step(token)
        if isinstance(step, Failed):
            self._fail(lambda: None, step.reason)  # after SaslHandshake v0, a failure is a closed connection
            return
        if isinstance(step, Done):
            self._accept(step)
        transport = self._connection.transport
        if transport is not None:
            transport.write(_size(len(step.token)) + step.token)

    def _step(self, token: bytes) -> Send | Done | Failed:
        assert self._server is not None
        if len(token) > MAX_TOKEN_BYTES:
            return Failed(
                f"the token has {len(token)} bytes, more than {MAX_TOKEN_BYTES}",
                ErrorCode.SASL_AUTHENTICATION_FAILED.sentence,
            )
        step = self._server.receive(token)
        if isinstance(step, Done) and self._principal is not None:
            new = user_principal(step.principal_name)
            if new != self._principal:
                sentence = "Cannot change principals during re-authentication from {}: {}"
                return Failed(
                    f"{self._principal} may not become {new} on its connection",
                    sentence.format(_dotted(self._principal), _dotted(new)),
                )
        return step

    def _accept(self, done: Done) -> Millis:
        """Admit the client. Return the lifetime of its session in milliseconds, or 0 if it does not end."""
        now, first = self._now(), self._principal is None
        self._server, self._bare_tokens = None, False
        self._principal, self._principal_mechanism = user_principal(done.principal_name), self._mechanism
        limits = [self._reauthenticate_ms] if self._reauthenticate_ms else []
        if done.expires_at_ms is not None:
            limits.append(max(1, done.expires_at_ms - now))
        lifetime = min(limits, default=0)
        self._expires_at = now + lifetime if lifetime else None
        self._connection.principal = self._principal
        if first:
            log.debug("authenticated peer=%s principal=%s", self._connection.peer, self._principal)
            self._authenticated()
        return lifetime

    def _fail(self, answer: Callable[[], None], reason: str) -> None:
        """Log the reason, then answer and close after a delay, which slows down guesses of passwords."""
        self._failed = True
        connection = self._connection
        mechanism = self._mechanism or "SASL"
        log.warning(
            "authentication failed peer=%s listener=%s mechanism=%s reason=%s",
            connection.peer,
            self._listener,
            mechanism,
            _printable(reason),
        )
        connection.stop_reading()

        def end() -> None:
            answer()
            connection.close()

        if self._failed_delay_s:
            asyncio.get_running_loop().call_later(self._failed_delay_s, end)
        else:
            asyncio.get_running_loop().call_soon(end)


def _printable(reason: str) -> str:
    """Return a reason as a part of one line: it may contain names of any length, which the peer chose."""
    shown = printable(reason[:_LONGEST_REASON])
    return shown if len(reason) <= _LONGEST_REASON else f"{shown}..."


def _dotted(principal: str) -> str:
    """Return a principal as Kafka names it in this sentence."""
    return principal.replace(":", ".", 1)
