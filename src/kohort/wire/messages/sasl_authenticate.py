"""SaslAuthenticate: one token of the SASL mechanism in each direction (KIP-152, KIP-368)."""

from kohort.wire.codec import Int16, Int64, Message, NullableString, SecretBytes, message, since


@message(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateRequest(Message):
    """The client's next token."""

    auth_bytes: SecretBytes = b""


@message(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateResponse(Message):
    """The broker's next token, or the reason for which authentication failed."""

    error_code: Int16 = 0
    error_message: NullableString = None
    auth_bytes: SecretBytes = b""
    session_lifetime_ms: Int64 = since(1, default=0, ignorable=True)  # KIP-368: 0 if it does not end
