"""Validation of bearer tokens of OAUTHBEARER: JSON Web Tokens (RFC 7519) that an issuer signed with a public key.

Algorithms with a shared secret, and `none`, are never accepted: a client that knows the public key could sign with it.
"""

import json
import math
import warnings
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jws import JWSRegistry

from kohort.broker.config import Listener
from kohort.broker.security.key_set import KeySet, PublicKey
from kohort.model import Millis
from kohort.security.sasl import InvalidToken, ValidToken

_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    **dict.fromkeys(("EdDSA", "Ed25519"), "OKP"),
}
"""Accepted algorithms, each with the kind of its keys."""
_TRIMMED = "".join(map(chr, range(0x21)))
"""What Java's trim takes off a name: with a space, alice would be somebody whom no ACL denies anything."""
_LONGEST_TOKEN = 1 << 16
_LONGEST_HEADER = 1 << 12


class BearerTokens:
    """Validates the tokens of one listener."""

    def __init__(self, listener: Listener, now: Callable[[], Millis]) -> None:
        """Raise ConfigError if the URL of the keys is invalid."""
        config = listener.config
        self._now = now
        self._skew_s = config.number("sasl.oauthbearer.clock.skew.seconds")
        self._audiences = frozenset(config.names("sasl.oauthbearer.expected.audience"))
        self._issuer = config.text("sasl.oauthbearer.expected.issuer")
        self._scope_claim = config.text("sasl.oauthbearer.scope.claim.name")
        self._sub_claim = config.text("sasl.oauthbearer.sub.claim.name")
        self.key_set = KeySet(
            config.text("sasl.oauthbearer.jwks.endpoint.url"),
            config.number("sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000,
        )
        self._registry = JWSRegistry(algorithms=list(_KINDS), strict_check_header=False)
        self._registry.max_header_length = _LONGEST_HEADER
        self._registry.max_payload_length = _LONGEST_TOKEN

    def validate(self, token: str, extensions: Mapping[str, str]) -> ValidToken | InvalidToken:
        """Return the principal of the token, or why it is rejected. All extensions are accepted, as in Kafka."""
        if len(token) > _LONGEST_TOKEN:
            return InvalidToken(f"the bearer token has {len(token)} bytes, more than {_LONGEST_TOKEN}")
        header = _header(token)
        if header is None:
            return InvalidToken("the bearer token is not a signed JSON Web Token")
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in _KINDS:
            return InvalidToken(f"the algorithm {_short(algorithm)} of the bearer token is not accepted")
        key = self._key(header.get("kid"), algorithm)
        if isinstance(key, InvalidToken):
            return key
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SecurityWarning)  # EdDSA has another name since RFC 9864
                claims = jwt.decode(token, key.key, algorithms=[algorithm], registry=self._registry).claims
        except (JoseError, ValueError, TypeError, RecursionError) as problem:
            return InvalidToken(f"the bearer token cannot be verified: {_short(str(problem))}")
        return self._judge(claims)

    def _key(self, key_id: object, algorithm: str) -> PublicKey | InvalidToken:
        keys = self.key_set.keys
        if not keys:
            return InvalidToken("the keys of the token issuer have not been read yet")
        named = [key for key in keys if key_id is None or key.key_id == key_id]
        if not named:
            self.key_set.miss()
            return InvalidToken(f"the token issuer has no key {_short(key_id)} yet; its keys are read again")
        fitting = [key for key in named if key.kind == _KINDS[algorithm] and key.algorithm in (None, algorithm)]
        if len(fitting) != 1:
            named_by = "does not name one" if key_id is None else f"names {_short(key_id)}"
            return InvalidToken(f"{len(fitting)} keys of the token issuer fit the bearer token, which {named_by}")
        return fitting[0]

    def _judge(self, claims: Mapping[str, Any]) -> ValidToken | InvalidToken:
        now_s = self._now() / 1000
        expires, issued = _seconds(claims.get("exp")), _seconds(claims.get("iat"))
        if expires is None or issued is None:
            return InvalidToken("the bearer token does not contain its time of issue and its expiration (iat, exp)")
        if now_s >= expires + self._skew_s:
            return InvalidToken("the bearer token has expired")
        begins = _seconds(claims["nbf"]) if "nbf" in claims else issued
        if begins is None or max(begins, issued) > now_s + self._skew_s:
            return InvalidToken("the bearer token is not valid yet")
        if self._issuer and claims.get("iss") != self._issuer:
            return InvalidToken(f"the bearer token is from another issuer: {_short(claims.get('iss'))}")
        if self._audiences and not self._audiences & _words(claims.get("aud")):
            return InvalidToken(f"the bearer token is for another audience: {_short(claims.get('aud'))}")
        if not isinstance(claims.get(self._scope_claim, ""), str | list):
            return InvalidToken(f"the claim {self._scope_claim} of the bearer token is not a list of scopes")
        subject = claims.get(self._sub_claim)
        principal = subject.strip(_TRIMMED) if isinstance(subject, str) else ""
        if not principal:
            return InvalidToken(f"the bearer token names nobody in the claim {self._sub_claim}")
        return ValidToken(principal, int(expires * 1000))


def _header(token: str) -> dict[str, Any] | None:
    first, *others = token.split(".")
    if len(others) != 2 or len(first) > _LONGEST_HEADER:
        return None
    try:
        found = json.loads(urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and 0 <= seconds < 1e12 else None


def _words(value: object) -> set[str]:
    found = value if isinstance(value, list) else [value]
    return {word for word in found if isinstance(word, str)}


def _short(value: object) -> str:
    return repr(value)[:100]
