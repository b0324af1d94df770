"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), without channel binding, as Kafka uses them.

    client: n,,n=USER,r=CLIENT_NONCE
    server: r=CLIENT_NONCE SERVER_NONCE,s=SALT,i=ITERATIONS
    client: c=biws,r=NONCE,p=PROOF
    server: v=SERVER_SIGNATURE

Neither side sends the password, and each proves that it knows it (the server: a value derived from
it). Kafka applies no SASLprep: passwords are UTF-8 as they are.
"""

import binascii
import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Self

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

MIN_ITERATIONS = 4096
"""Lowest number of iterations that either side accepts (RFC 7677 and Kafka)."""
MAX_ITERATIONS = 131_072
"""Highest number of iterations that a client computes, which takes about a tenth of a second.

Kafka stores at most 16,384. Without a limit, a hostile server could occupy the client for minutes.
"""
MAX_STORED_ITERATIONS = 16_384
"""Highest number of iterations that Kafka accepts for a stored credential."""

_GS2_HEADER = "n,,"  # no channel binding, no authorization id
_REJECTED = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"
_NONCE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")  # printable, without the comma
_FIRST = re.compile(
    r"(?P<gs2>n,(?:a=(?P<authorized>[^,]+))?,)(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>[^,]+)(?P<rest>,.+)?)"
)
_CHALLENGE = re.compile(r"r=(?P<nonce>[^,]+),s=(?P<salt>[^,]+),i=(?P<iterations>[0-9]{1,9})(?:,.+)?")
_FINAL = re.compile(r"(?P<without_proof>c=(?P<channel>[^,]+),r=(?P<nonce>[^,]+)(?:,.+)?),p=(?P<proof>[^,]+)")
_OUTCOME = re.compile(r"(?:v=(?P<signature>[^,]+)|e=(?P<error>[^,]+))(?:,.+)?")


class ScramMechanism(Enum):
    """Mechanism by its name in SaslHandshake. `number` is its value in records and requests of Kafka."""

    number: int
    hash_name: str

    SHA_256 = "SCRAM-SHA-256", 1, "sha256"
    SHA_512 = "SCRAM-SHA-512", 2, "sha512"

    def __new__(cls, name: str, number: int, hash_name: str) -> "ScramMechanism":
        member = object.__new__(cls)
        member._value_ = name
        member.number = number
        member.hash_name = hash_name
        return member

    @classmethod
    def named(cls, name: str) -> "ScramMechanism | None":
        """Return the mechanism with this name in SaslHandshake."""
        return next((mechanism for mechanism in cls if mechanism.value == name), None)

    @classmethod
    def numbered(cls, number: int) -> "ScramMechanism | None":
        """Return the mechanism with this number in Kafka's protocol."""
        return next((mechanism for mechanism in cls if mechanism.number == number), None)

    def digest(self, data: bytes) -> bytes:
        """Return the hash of the data."""
        return hashlib.new(self.hash_name, data).digest()

    def hmac(self, key: bytes, data: bytes | str) -> bytes:
        """Return the keyed hash of the data."""
        return hmac.digest(key, data.encode() if isinstance(data, str) else data, self.hash_name)

    def salted_password(self, password: bytes, salt: bytes, iterations: int) -> bytes:
        """Return the value from which all keys are derived. It takes time in proportion to `iterations`."""
        return hashlib.pbkdf2_hmac(self.hash_name, password, salt, iterations)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """Data that a server stores for a user. It verifies a password and does not reveal it."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, [hidden])"

    @classmethod
    def from_password(cls, mechanism: ScramMechanism, password: Secret, salt: bytes, iterations: int) -> Self:
        """Return the credential of this password."""
        salted = mechanism.salted_password(password.reveal_bytes(), salt, iterations)
        return cls.from_salted_password(mechanism, salted, salt, iterations)

    @classmethod
    def from_salted_password(cls, mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> Self:
        """Return the credential of a password that AlterUserScramCredentials carries in salted form."""
        stored_key = mechanism.digest(mechanism.hmac(salted, b"Client Key"))
        return cls(salt, iterations, stored_key, mechanism.hmac(salted, b"Server Key"))


def salt_of(random: bytes) -> bytes:
    """Return a salt in the form in which Java's admin client makes it: 130 bits in base 36.

    `random` has at least 17 bytes. If all salts of a server have one form, those that it invents for
    unknown users do not stand out.
    """
    number, digits = int.from_bytes(random[:17]) >> 6, b""
    for _ in range(26):
        number, digit = divmod(number, 36)
        digits = b"0123456789abcdefghijklmnopqrstuvwxyz"[digit : digit + 1] + digits
    return digits


class ScramPassword:
    """A password, and the salted form that was used last, which RFC 5802 lets a client keep.

    To derive it takes milliseconds of CPU time, and all brokers of a cluster ask for the same one.
    """

    def __init__(self, mechanism: ScramMechanism, password: Secret) -> None:
        self.mechanism = mechanism
        self._password = password
        self._last: tuple[bytes, int, bytes] | None = None

    def salted(self, salt: bytes, iterations: int) -> bytes:
        """Return the password's salted form."""
        last = self._last
        if last is None or last[:2] != (salt, iterations):
            salted = self.mechanism.salted_password(self._password.reveal_bytes(), salt, iterations)
            self._last = last = salt, iterations, salted
        return last[2]


class ScramClient:
    """Client role. `nonce` is random, printable ASCII without commas, and used once."""

    def __init__(self, username: str, password: ScramPassword, nonce: str) -> None:
        assert _NONCE.fullmatch(nonce)
        self._mechanism = password.mechanism
        self._password = password
        self._nonce = nonce
        self._first_bare = f"n={_escaped(username)},r={nonce}"
        self._server_signature: bytes | None = None

    def start(self) -> bytes:
        """Return the first token."""
        return (_GS2_HEADER + self._first_bare).encode()

    def receive(self, token: bytes) -> ClientStep:
        """Return the proof for the server's challenge, or whether the server's signature is valid."""
        text = _text(token)
        if text is None:
            return ClientFailed("the server sent a malformed SCRAM message")
        return self._prove(text) if self._server_signature is None else self._verify(text, self._server_signature)

    def _prove(self, challenge: str) -> ClientStep:
        found = _CHALLENGE.fullmatch(challenge)
        salt = _decoded(found["salt"]) if found else None
        if found is None or not salt:
            return ClientFailed("the server sent a malformed SCRAM challenge")
        nonce, iterations = found["nonce"], int(found["iterations"])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce) or not _NONCE.fullmatch(nonce):
            return ClientFailed("the server's SCRAM nonce does not extend the client's: another server may answer")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            limits = f"{MIN_ITERATIONS} to {MAX_ITERATIONS}"
            return ClientFailed(f"the server asks for {iterations} SCRAM iterations, and this client accepts {limits}")
        mechanism = self._mechanism
        salted = self._password.salted(salt, iterations)
        client_key = mechanism.hmac(salted, b"Client Key")
        without_proof = f"c={_encoded(_GS2_HEADER.encode())},r={nonce}"
        auth_message = f"{self._first_bare},{challenge},{without_proof}"
        proof = _xor(client_key, mechanism.hmac(mechanism.digest(client_key), auth_message))
        self._server_signature = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), auth_message)
        return Send(f"{without_proof},p={_encoded(proof)}".encode())

    def _verify(self, outcome: str, expected: bytes) -> ClientStep:
        found = _OUTCOME.fullmatch(outcome)
        if found is None:
            return ClientFailed("the server sent a malformed SCRAM outcome")
        if found["error"] is not None:
            return ClientFailed(f"the server answered {found['error'][:100]!r}")
        if not hmac.compare_digest(_decoded(found["signature"]) or b"", expected):
            return ClientFailed("the server does not know the password: its SCRAM signature is wrong")
        return ClientDone()


class ScramServer:
    """Server role. `credential` returns what is stored for a user.

    `nonce` is random, printable ASCII without commas, and used once. `secret` is random and constant;
    the challenges for unknown users are derived from it, with `unknown_iterations`. They get the same
    challenge every time and fail after the proof, with the same work, so they cannot be told from
    users with another password.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential: Callable[[str], ScramCredential | None],
        nonce: str,
        secret: bytes,
        *,
        unknown_iterations: int = MIN_ITERATIONS,
    ) -> None:
        assert _NONCE.fullmatch(nonce)
        self._mechanism = mechanism
        self._credential = credential
        self._server_nonce = nonce
        self._secret = secret
        self._unknown_iterations = unknown_iterations
        self._challenged: _Challenged | None = None

    def receive(self, token: bytes) -> ServerStep:
        """Return the challenge for the first token, and the result for the second."""
        text = _text(token)
        if text is None:
            return self._failed("malformed SCRAM message")
        return self._challenge(text) if self._challenged is None else self._judge(text, self._challenged)

    def _challenge(self, first: str) -> ServerStep:
        found = _FIRST.fullmatch(first)
        username = _unescaped(found["user"]) if found else None
        if found is None or username is None or not _NONCE.fullmatch(found["nonce"]):
            return self._failed("malformed first SCRAM message")
        if "tokenauth=true" in (found["rest"] or "").split(","):
            return self._failed(f"{username!r} uses a delegation token, which is not supported")
        if found["authorized"] is not None and _unescaped(found["authorized"]) != username:
            return self._failed(f"{username!r} wants to act as {found['authorized']!r}")
        # Both are made for each user: the time of an answer must not reveal which users exist.
        stored, invented = self._credential(username), self._invented(username)
        credential = stored if stored is not None else invented
        nonce = found["nonce"] + self._server_nonce
        challenge = f"r={nonce},s={_encoded(credential.salt)},i={credential.iterations}"
        self._challenged = _Challenged(
            username, credential, stored is not None, found["gs2"], nonce, f"{found['bare']},{challenge}"
        )
        return Send(challenge.encode())

    def _judge(self, final: str, challenged: "_Challenged") -> ServerStep:
        found = _FINAL.fullmatch(final)
        proof = _decoded(found["proof"]) if found else None
        if found is None or proof is None:
            return self._failed("malformed final SCRAM message")
        if found["nonce"] != challenged.nonce:
            return self._failed("the SCRAM nonce is of another authentication")
        if _decoded(found["channel"]) != challenged.gs2_header.encode():
            return self._failed("the SCRAM channel binding is not the one announced")
        mechanism, credential = self._mechanism, challenged.credential
        auth_message = f"{challenged.auth_message},{found['without_proof']}"
        client_signature = mechanism.hmac(credential.stored_key, auth_message)
        if len(proof) != len(client_signature):
            return self._failed("malformed SCRAM proof")
        proved = hmac.compare_digest(mechanism.digest(_xor(proof, client_signature)), credential.stored_key)
        if not proved or not challenged.known:
            return self._failed(f"unknown user {challenged.username!r}, or wrong password")
        signature = mechanism.hmac(credential.server_key, auth_message)
        return Done(challenged.username, f"v={_encoded(signature)}".encode())

    def _invented(self, username: str) -> ScramCredential:
        mechanism = self._mechanism
        seed = mechanism.hmac(self._secret, username)
        no_key = mechanism.hmac(self._secret, seed)
        return ScramCredential(salt_of(seed), self._unknown_iterations, no_key, no_key)

    def _failed(self, reason: str) -> Failed:
        return Failed(reason, _REJECTED.format(self._mechanism.value))


@dataclass(frozen=True, slots=True, repr=False)
class _Challenged:
    """State of the server between its challenge and the client's proof."""

    username: str
    credential: ScramCredential
    known: bool
    gs2_header: str
    nonce: str
    auth_message: str
    """AuthMessage of RFC 5802 up to the client's final message."""


def _escaped(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str | None:
    """Return the user name, or None if an equals sign in it is not part of an escape."""
    if "=" in name.replace("=2C", "").replace("=3D", ""):
        return None
    return name.replace("=2C", ",").replace("=3D", "=")


def _text(token: bytes) -> str | None:
    if len(token) > MAX_TOKEN_BYTES or b"\0" in token:
        return None
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None


def _encoded(data: bytes) -> str:
    return b64encode(data).decode()


def _decoded(text: str) -> bytes | None:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
