"""Public keys of a token issuer: a JSON Web Key Set (RFC 7517), read from a URL again and again."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

from joserfc import jwk
from joserfc.errors import JoseError

from kohort.errors import ConfigError

log = logging.getLogger("kohort.broker")

_LONGEST_SET = 1 << 20
_MOST_KEYS = 100
_TIMEOUT_S = 10.0
"""Time within which the whole set must arrive, and for which the start of the broker waits."""
_AGAIN_AFTER_S = 10.0
"""Shortest time between two reads, regardless of the number of tokens that name an unknown key."""
_LEAST_RSA_BITS = 2048
_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that verifies signatures."""

    key_id: str | None
    kind: str
    """RSA, EC or OKP."""
    algorithm: str | None
    """The only algorithm of the key; None if the set does not restrict it."""
    key: Any


class KeySet:
    """The keys at a URL. If they cannot be read again, the former ones stay in use."""

    def __init__(self, url: str, refresh_s: float) -> None:
        """Raise ConfigError if the URL is invalid."""
        self._url = _checked(url)
        self._refresh_s = refresh_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._begun_at = 0.0
        self._reading = False
        self.keys: Sequence[PublicKey] = ()

    async def start(self) -> None:
        """Read the keys for the first time. Raise ConfigError if they are in a file that cannot be read.

        An endpoint that is down or slow does not keep the broker from starting. Tokens are rejected until it answers.
        """
        self._loop = asyncio.get_running_loop()
        done = asyncio.Event()
        self._read(done.set)
        with suppress(TimeoutError):  # `_overdue` logs it
            async with asyncio.timeout(_TIMEOUT_S):
                await done.wait()
        if not self.keys and self._url.startswith("file:"):
            self.close()
            raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url {self._url} has no keys that can be used.")

    def close(self) -> None:
        """Stop reading."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop = None

    def miss(self) -> None:
        """Read the set again soon: a token names a key that is not in it, so the issuer may have a new key."""
        loop = self._loop
        if loop is not None and not self._reading:
            self._schedule(loop, max(0.0, self._begun_at + _AGAIN_AFTER_S - loop.time()))

    def _schedule(self, loop: asyncio.AbstractEventLoop, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(delay_s, self._read)

    def _read(self, done: Callable[[], None] | None = None) -> None:
        loop = self._loop
        if loop is None or self._reading:
            return
        self._reading, self._begun_at = True, loop.time()

        def work() -> None:
            found: Sequence[PublicKey] | str
            try:
                found = parse_keys(_content(self._url))
            except (OSError, HTTPException, ValueError) as problem:
                found = str(problem) or type(problem).__name__
            try:
                loop.call_soon_threadsafe(self._take, found, done)
            except RuntimeError:
                return  # the loop is closed

        # Not a thread of the loop's executor: it would delay the end of the process until the endpoint answers.
        threading.Thread(target=work, name="kohort-jwks", daemon=True).start()
        self._timer = loop.call_later(_TIMEOUT_S, self._overdue)

    def _overdue(self) -> None:
        """Report a read that does not end, as of an endpoint that sends byte by byte. No other read begins."""
        self._report(f"it has not arrived after {_TIMEOUT_S:g} s")
        if self._loop is not None:
            self._timer = self._loop.call_later(_TIMEOUT_S, self._overdue)

    def _take(self, found: Sequence[PublicKey] | str, done: Callable[[], None] | None) -> None:
        self._reading = False
        if isinstance(found, str):
            self._report(found)
        else:
            if [key.key_id for key in found] != [key.key_id for key in self.keys]:
                log.info("the token issuer at %s has the keys %s", self._url, [key.key_id for key in found])
            self.keys = found
        if self._loop is not None:
            self._schedule(self._loop, _AGAIN_AFTER_S if isinstance(found, str) else self._refresh_s)
        if done is not None:
            done()

    def _report(self, problem: str) -> None:
        state = "the former keys stay in use" if self.keys else "all tokens are rejected until they can"
        log.warning("the keys of the token issuer at %s cannot be read (%s): %s", self._url, problem, state)


def parse_keys(content: bytes) -> list[PublicKey]:
    """Return the public keys of a set that verify signatures. Raise ValueError if there is none.

    Keys of other kinds and uses, and those that are too short, are left out. A secret key in the set would let anyone
    who can read it sign tokens.
    """
    try:
        found = json.loads(content)
    except RecursionError:
        raise ValueError("it is not a JSON Web Key Set") from None
    entries = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise ValueError("it is not a JSON Web Key Set")
    keys = [key for entry in entries[:_MOST_KEYS] if (key := _public_key(entry)) is not None]
    if not keys:
        raise ValueError("it has no public key for signatures")
    return keys


def _public_key(entry: Any) -> PublicKey | None:
    if not isinstance(entry, dict) or entry.get("kty") not in ("RSA", "EC", "OKP") or entry.get("use", "sig") != "sig":
        return None
    key_id, algorithm = entry.get("kid"), entry.get("alg")
    if not isinstance(key_id, str | None) or not isinstance(algorithm, str | None):
        return None
    public: Mapping[str, Any] = {name: entry[name] for name in ("kty", "n", "e", "crv", "x", "y") if name in entry}
    if entry["kty"] == "RSA" and len(str(entry.get("n", ""))) * 6 < _LEAST_RSA_BITS:
        log.warning("the key %r of the token issuer is ignored: it is shorter than %d bits", key_id, _LEAST_RSA_BITS)
        return None
    try:
        return PublicKey(key_id, entry["kty"], algorithm, jwk.import_key(dict(public)))
    except (JoseError, ValueError, TypeError) as problem:
        log.warning("the key %r of the token issuer cannot be read: %s", key_id, problem)
        return None


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http", "file") or (parts.scheme != "file" and not parts.hostname):
        raise ConfigError(
            f"sasl.oauthbearer.jwks.endpoint.url must begin with https://, http:// or file://, not {url!r}."
        )
    if parts.scheme == "http" and parts.hostname not in _LOCAL:
        log.warning(
            "the keys of the token issuer are read from %s without TLS: an attacker who changes them in transit can"
            " log in as any user; use https",
            url,
        )
    return url


class _NoRedirect(HTTPRedirectHandler):
    """Redirects are errors: the URL that the operator trusts is the one in the settings."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _content(url: str) -> bytes:
    """Return the content at the URL. Raise OSError, HTTPException or ValueError."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        with Path(unquote(parts.path)).open("rb") as file:
            return _bounded(file.read(_LONGEST_SET + 1))
    deadline = time.monotonic() + _TIMEOUT_S
    data = b""
    with build_opener(_NoRedirect).open(url, timeout=_TIMEOUT_S / 2) as answer:
        while chunk := answer.read1(1 << 16):
            data = _bounded(data + chunk)
            if time.monotonic() > deadline:
                raise TimeoutError(f"it did not arrive within {_TIMEOUT_S:g} s")
    return data


def _bounded(data: bytes) -> bytes:
    if len(data) > _LONGEST_SET:
        raise ValueError(f"it is larger than {_LONGEST_SET} bytes")
    return data
