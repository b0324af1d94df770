"""Responses of a SASL mechanism to a token of its peer, and the interface of both roles.

A mechanism is used for one authentication. After `Done` or `Failed` it takes no more tokens.
"""

from dataclasses import dataclass
from typing import Protocol

from kohort.model import Millis

MAX_TOKEN_BYTES = 524_288
"""Largest token that either role reads (sasl.server.max.receive.size)."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send this token to the peer, and pass its answer to `receive`."""

    token: bytes


@dataclass(frozen=True, slots=True)
class ClientDone:
    """The conversation is complete: the server has proved what the mechanism lets it prove."""


@dataclass(frozen=True, slots=True)
class ClientFailed:
    """The client must close the connection. `reason` is a clause for its user."""

    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """The client is authenticated. `token` completes the conversation; it may be empty."""

    principal_name: str
    token: bytes = b""
    expires_at_ms: Millis | None = None
    """When the credential expires, in milliseconds since 1970; None if it does not expire."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The client is not authenticated. The server answers SASL_AUTHENTICATION_FAILED and closes."""

    reason: str
    """Cause for the server's log. It may say more than the peer may know."""
    sentence: str
    """Message for the peer. It is the same for an unknown user and for a wrong password."""
    token: bytes = b""


ClientStep = Send | ClientDone | ClientFailed
ServerStep = Send | Done | Failed


class SaslClient(Protocol):
    """Client role of a mechanism. The shell sends what `start` returns, and passes in each answer."""

    def start(self) -> bytes: ...
    def receive(self, token: bytes) -> ClientStep: ...


class SaslServer(Protocol):
    """Server role of a mechanism. The shell passes in each token of the client."""

    def receive(self, token: bytes) -> ServerStep: ...
