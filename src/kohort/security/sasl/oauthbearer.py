"""OAUTHBEARER (RFC 7628): the client presents a bearer token that another server has issued.

    client: n,,^Aauth=Bearer TOKEN[^Akey=value...]^A^A
    server: nothing if it accepts the token; otherwise JSON, to which the client answers ^A

The extensions are pairs of words, such as Confluent's logicalCluster and identityPoolId.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kohort.model import Millis
from kohort.security.sasl.steps import (
    MAX_TOKEN_BYTES,
    ClientDone,
    ClientFailed,
    ClientStep,
    Done,
    Failed,
    Send,
    ServerStep,
)
from kohort.security.secret import Secret

OAUTHBEARER = "OAUTHBEARER"
_SEPARATOR = "\x01"
_FIRST = re.compile(
    r"n,(?:a=(?P<authorized>(?:[^=,\x01]|=2C|=3D)+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)+)\x01"
)
_BEARER = re.compile(r"(?i:bearer) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_EXTENSION_KEY = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")


@dataclass(frozen=True, slots=True)
class ValidToken:
    """Result of `validate` for a token that the server accepts."""

    principal_name: str
    expires_at_ms: Millis | None


@dataclass(frozen=True, slots=True)
class InvalidToken:
    """Result of `validate` for a token that the server rejects."""

    reason: str
    """Cause for the server's log."""
    status: str = "invalid_token"
    scope: str | None = None
    """Scope that the token must have, if it lacks one."""


class OAuthBearerClient:
    """Client role. See `check_token` and `check_extensions` for what it can send."""

    def __init__(self, token: Secret, extensions: Mapping[str, str] | None = None) -> None:
        self._token = token
        self._extensions = dict(extensions or {})
        self._rejection: str | None = None

    def start(self) -> bytes:
        """Return the first token."""
        pairs = [f"auth=Bearer {self._token.reveal()}", *(f"{key}={value}" for key, value in self._extensions.items())]
        return f"n,,{_SEPARATOR}{_SEPARATOR.join(pairs)}{_SEPARATOR}{_SEPARATOR}".encode()

    def receive(self, token: bytes) -> ClientStep:
        """Return that the server accepts the token, or the answer to its refusal."""
        if self._rejection is not None:
            return ClientFailed(self._rejection)
        if not token:
            return ClientDone()
        self._rejection = f"the server rejected the token: {_status(token)}"
        return Send(_SEPARATOR.encode())

    @property
    def rejection(self) -> str | None:
        """Response of the server to a token that it rejected."""
        return self._rejection


class OAuthBearerServer:
    """Server role. `validate` receives the token and the extensions."""

    def __init__(self, validate: Callable[[str, dict[str, str]], ValidToken | InvalidToken]) -> None:
        self._validate = validate
        self._failed: Failed | None = None

    def receive(self, token: bytes) -> ServerStep:
        """Return the result for the first token. A failure has two steps: JSON, then the client's ^A."""
        if self._failed is not None:
            return self._failed
        found = _FIRST.fullmatch(token.decode("latin-1")) if len(token) <= MAX_TOKEN_BYTES else None
        if found is None:
            return self._reject("malformed OAUTHBEARER message", "invalid_request", None)
        pairs: dict[str, str] = {}
        for pair in found["pairs"].removesuffix(_SEPARATOR).split(_SEPARATOR):
            key, _, value = pair.partition("=")
            if key in pairs:
                return self._reject(f"the OAUTHBEARER message repeats {key}", "invalid_request", None)
            pairs[key] = value
        bearer = _BEARER.fullmatch(pairs.pop("auth", ""))
        if bearer is None:
            return self._reject("the OAUTHBEARER message has no bearer token", "invalid_request", None)
        outcome = self._validate(bearer["token"], pairs)
        if isinstance(outcome, InvalidToken):
            return self._reject(outcome.reason, outcome.status, outcome.scope)
        authorized = found["authorized"]
        if authorized is not None and authorized.replace("=2C", ",").replace("=3D", "=") != outcome.principal_name:
            return self._reject(
                f"{outcome.principal_name!r} wants to act as {authorized!r}", "invalid_authorization_id", None
            )
        return Done(outcome.principal_name, expires_at_ms=outcome.expires_at_ms)

    def _reject(self, reason: str, status: str, scope: str | None) -> Send:
        answer = {"status": status} | ({"scope": scope} if scope else {})
        data = json.dumps(answer, separators=(",", ":"))
        self._failed = Failed(reason, data)
        return Send(data.encode())


def check_token(token: str) -> str | None:
    """Return what is wrong with a token that `OAuthBearerClient` could not send; otherwise None."""
    if not _TOKEN.fullmatch(token):
        return "the token has characters that a bearer token cannot have (RFC 6750)"
    return "the token is too long" if len(token) > MAX_TOKEN_BYTES // 2 else None


def check_extensions(extensions: Mapping[str, str]) -> str | None:
    """Return what is wrong with extensions that `OAuthBearerClient` could not send; otherwise None."""
    for key, value in extensions.items():
        if not _EXTENSION_KEY.fullmatch(key) or key == "auth":
            return f"the name {key!r} must consist of letters and must not be auth"
        if not _EXTENSION_VALUE.fullmatch(value):
            return f"the value of {key!r} must consist of printable ASCII characters"
    return None


def _status(token: bytes) -> str:
    """Return the status in the server's answer, or what else it sent, without control characters."""
    try:
        answer = json.loads(token[:10_000])
    except (ValueError, RecursionError):
        return repr(token[:100])
    if not isinstance(answer, dict) or "status" not in answer:
        return repr(token[:100])
    scope = f", it requires the scope {str(answer['scope'])[:100]!r}" if answer.get("scope") else ""
    return f"{str(answer['status'])[:100]!r}{scope}"
