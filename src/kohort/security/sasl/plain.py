"""PLAIN (RFC 4616): the client sends user name and password in one token, which TLS must protect.

message = [authzid] NUL authcid NUL passwd, in UTF-8. Kafka applies no SASLprep, so the bytes of the
password are compared as they are.
"""

import hmac
from collections.abc import Callable, Mapping

from kohort.security.sasl.steps import MAX_TOKEN_BYTES, ClientDone, ClientStep, Done, Failed, ServerStep
from kohort.security.secret import Secret

PLAIN = "PLAIN"
_REJECTED = "Authentication failed: Invalid username or password"  # the words of Kafka's brokers
_DUMMY_PASSWORD = Secret(b"\0")
"""Password to which the password of an unknown user is compared; no client can send it."""


class PlainClient:
    """Client role. User name and password must not contain NUL."""

    def __init__(self, username: str, password: Secret) -> None:
        self._username = username
        self._password = password

    def start(self) -> bytes:
        """Return the only token."""
        return b"\0" + self._username.encode() + b"\0" + self._password.reveal_bytes()

    def receive(self, token: bytes) -> ClientStep:
        """Return that the conversation is over. The content of the server's token has no meaning."""
        return ClientDone()


class PlainServer:
    """Server role. `verify` compares in constant time, see `verify_against`."""

    def __init__(self, verify: Callable[[str, bytes], bool]) -> None:
        self._verify = verify

    def receive(self, token: bytes) -> ServerStep:
        """Return the result for the client's only token."""
        if len(token) > MAX_TOKEN_BYTES:
            return _malformed(f"the token has {len(token)} bytes, more than {MAX_TOKEN_BYTES}")
        parts = token.split(b"\0")
        if len(parts) != 3:
            return _malformed(f"expected 3 tokens, got {len(parts)}")
        try:
            authorized, username = parts[0].decode(), parts[1].decode()
        except UnicodeDecodeError:
            return _malformed("the user name is not UTF-8")
        if not username:
            return Failed("the user name is empty", "Authentication failed: username not specified")
        if not parts[2]:
            return Failed(f"the password of {username!r} is empty", "Authentication failed: password not specified")
        if not self._verify(username, parts[2]):
            return Failed(f"unknown user {username!r}, or wrong password", _REJECTED)
        if authorized not in ("", username):
            sentence = "Authentication failed: Client requested an authorization id that is different from username"
            return Failed(f"{username!r} wants to act as {authorized!r}", sentence)
        return Done(username)


def verify_against(passwords: Mapping[str, Secret]) -> Callable[[str, bytes], bool]:
    """Return a `verify` that takes the same time for unknown users as for wrong passwords."""

    def verify(username: str, password: bytes) -> bool:
        expected = passwords.get(username, _DUMMY_PASSWORD)
        # Digests have one length, so the comparison does not reveal that of the password.
        same = hmac.compare_digest(_digest(expected.reveal_bytes()), _digest(password))
        return same and expected is not _DUMMY_PASSWORD

    return verify


def _digest(password: bytes) -> bytes:
    return hmac.digest(b"kohort", password, "sha256")


def _malformed(what: str) -> Failed:
    return Failed(f"malformed PLAIN token: {what}", f"Authentication failed: Invalid SASL/PLAIN response: {what}")
