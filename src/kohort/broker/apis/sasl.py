"""SaslHandshake and SaslAuthenticate: the requests in which a client authenticates."""

from typing import Protocol

from kohort.broker.net import Call
from kohort.broker.security import Authentication
from kohort.errors import ErrorCode
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


class Dependencies(Protocol):
    """The parts of the broker that this module uses: none, because a connection has its authentication."""


def handshake(broker: Dependencies, call: Call, request: SaslHandshakeRequest) -> None:
    """Choose the mechanism. A listener without SASL rejects it, as Kafka does."""
    gate = call.connection.gate
    if isinstance(gate, Authentication):
        gate.handshake(call, request)
    else:
        call.reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


def authenticate(broker: Dependencies, call: Call, request: SaslAuthenticateRequest) -> None:
    """Handle a token of the mechanism."""
    gate = call.connection.gate
    if isinstance(gate, Authentication) and gate.expects_token:
        gate.authenticate(call, request)
        return
    call.reply(
        SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    )
