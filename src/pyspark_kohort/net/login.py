"""TLS and SASL of blocking connections, with the mechanisms of Kohort's client."""

import socket
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kohort.errors import KafkaError
from kohort.model import Millis
from kohort.security.sasl import ClientFailed, Send
from kohort.wire.codec import Message
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from kohort.client.security import SecurityOptions

M = TypeVar("M", bound=Message)

_HANDSHAKE_VERSION = 1
_AUTHENTICATE_VERSION = 2


class Ask(Protocol):
    """Send a request in this version, and return its response."""

    def __call__(self, request: Message, version: int, answer: type[M]) -> M: ...


class Login:
    """TLS context and credentials for the connections of a cluster. Raises ConfigError for unreadable files."""

    def __init__(self, options: "SecurityOptions", bootstrap: str) -> None:
        # Importing the client takes time, which a worker without security saves.
        from kohort.client.security import Credentials, tls_context, tls_error

        self._tls = tls_context(options)
        self._credentials = Credentials.of(options, bootstrap)
        self.tls_error = tls_error

    def wrap(self, plain: socket.socket, host: str, peer: str) -> socket.socket:
        """Return the socket after the TLS handshake, or as it is without TLS. Raises KafkaError."""
        if self._tls is None:
            return plain
        try:
            return self._tls.wrap_socket(plain, server_hostname=host)
        except (ssl.SSLError, ConnectionError) as error:
            plain.close()
            raise self.tls_error(peer, error) from None

    def authenticate(self, peer: str, versions: Mapping[int, tuple[int, int]], ask: Ask) -> Millis:
        """Authenticate a connection, and return the lifetime of its session; 0 if it does not end.

        Raises KafkaError.
        """
        from kohort.client.security import no_sasl_error

        credentials = self._credentials
        if credentials is None:
            return 0
        newest = {key: high for key, (_, high) in versions.items()}
        if newest.get(SaslHandshakeRequest.KEY, 0) < _HANDSHAKE_VERSION:
            raise no_sasl_error(peer)
        machine = credentials.client_now()
        choice = SaslHandshakeRequest(mechanism=credentials.mechanism)
        offered = ask(choice, _HANDSHAKE_VERSION, SaslHandshakeResponse)
        if offered.error_code:
            raise credentials.handshake_error(peer, offered.error_code, offered.mechanisms)
        version = min(_AUTHENTICATE_VERSION, newest.get(SaslAuthenticateRequest.KEY, 0))
        token = machine.start()
        while True:
            answer = ask(SaslAuthenticateRequest(auth_bytes=token), version, SaslAuthenticateResponse)
            if answer.error_code:
                raise credentials.rejection(peer, answer.error_code, answer.error_message, machine)
            step: Any = machine.receive(bytes(answer.auth_bytes))
            if isinstance(step, ClientFailed):
                raise self._distrust(peer, step.reason)
            if not isinstance(step, Send):
                return answer.session_lifetime_ms
            token = step.token

    def _distrust(self, peer: str, reason: str) -> KafkaError:
        assert self._credentials is not None
        return self._credentials.distrust(peer, reason)
