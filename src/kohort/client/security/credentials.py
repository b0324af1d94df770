"""The SASL conversation of a client: its mechanism, and the meaning of the broker's answers."""

import secrets
from collections.abc import Sequence

from kohort.client.security.failures import AuthenticationError
from kohort.client.security.options import MSK_IAM, SecurityOptions
from kohort.client.security.tokens import Token, Tokens
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.security import Secret
from kohort.security.sasl import (
    OAUTHBEARER,
    PLAIN,
    OAuthBearerClient,
    PlainClient,
    SaslClient,
    ScramClient,
    ScramMechanism,
    ScramPassword,
)


class Credentials:
    """Credentials that a client presents to every broker. Each authentication takes a new state machine."""

    def __init__(self, options: SecurityOptions, bootstrap: str) -> None:
        assert options.sasl_mechanism is not None
        self._options = options
        self.mechanism = OAUTHBEARER if options.sasl_mechanism == MSK_IAM else options.sasl_mechanism
        """Name of the mechanism in SaslHandshake."""
        self._tokens = Tokens(options, bootstrap)
        self._password = options.sasl_plain_password or Secret("")
        mechanism = ScramMechanism.named(self.mechanism)
        self._scram_password = None if mechanism is None else ScramPassword(mechanism, self._password)

    @classmethod
    def of(cls, options: SecurityOptions, bootstrap: str) -> "Credentials | None":
        """Return the credentials in the options; None without SASL."""
        return cls(options, bootstrap) if options.uses_sasl else None

    async def client(self) -> SaslClient:
        """Return a machine for one authentication, with a token if it needs one. Raises KafkaError."""
        return self._with_token(await self._tokens.token()) if self.mechanism == OAUTHBEARER else self._with_password()

    def client_now(self) -> SaslClient:
        """Return a machine for one authentication, and block until it has a token. Raises KafkaError."""
        return self._with_token(self._tokens.token_now()) if self.mechanism == OAUTHBEARER else self._with_password()

    def _with_token(self, token: Token) -> SaslClient:
        return OAuthBearerClient(token.text, self._options.extensions)

    def _with_password(self) -> SaslClient:
        username = self._options.sasl_plain_username or ""
        if self.mechanism == PLAIN:
            return PlainClient(username, self._password)
        assert self._scram_password is not None
        return ScramClient(username, self._scram_password, secrets.token_hex(16))

    def handshake_error(self, address: str, code: int, offered: Sequence[str]) -> KafkaError:
        """Return the error for a rejected SaslHandshake."""
        if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            listed = ", ".join(sorted(offered)) or "none"
            detail = (
                f"{address} does not offer the SASL mechanism {self.mechanism}: set sasl_mechanism to one of {listed}."
            )
            return AuthenticationError(detail, ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        if code == ErrorCode.ILLEGAL_SASL_STATE:
            return no_sasl_error(address)
        return _rejected(address, code, error_code(code).sentence)

    def rejection(self, address: str, code: int, message: str | None, machine: SaslClient) -> KafkaError:
        """Return the error for a rejected SaslAuthenticate."""
        if code != ErrorCode.SASL_AUTHENTICATION_FAILED:
            return _rejected(address, code, message or error_code(code).sentence)
        said = f": {message[:300]}" if message else ""
        if isinstance(machine, OAuthBearerClient):
            if machine.rejection is not None:
                said = f": {machine.rejection}"
            return AuthenticationError(f"{address} rejects the OAUTHBEARER token{said}")
        user = self._options.sasl_plain_username
        advice = "check sasl_plain_username and sasl_plain_password"
        return AuthenticationError(
            f"{address} rejects user {user!r} with its password ({self.mechanism}){said}; {advice}."
        )

    def distrust(self, address: str, reason: str) -> KafkaError:
        """Return the error for a broker that does not prove what the mechanism requires."""
        return AuthenticationError(f"this client rejects {address} ({self.mechanism}): {reason}.")


def no_sasl_error(address: str) -> AuthenticationError:
    """Return the error for a listener without SASL."""
    detail = (
        f"the listener at {address} does not authenticate by SASL: give the port of one that does, or set"
        " security_protocol to PLAINTEXT or SSL."
    )
    return AuthenticationError(detail, ErrorCode.ILLEGAL_SASL_STATE)


def _rejected(address: str, code: int, sentence: str) -> KafkaError:
    known = error_code(code)
    if known.retriable:
        return KafkaError(known, f"{address}: {sentence}")
    return AuthenticationError(f"{address} ended the authentication: {sentence}", known)
