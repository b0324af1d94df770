"""What every request must pass: method, size, host, token; and the headers that every response has."""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
SHORTEST_TOKEN = 16
"""Minimum length of a token, in characters."""
_METHODS = ("GET", "HEAD")
_PROTECTED = ("/api/", "/events", "/metrics")
"""Beginnings of the paths that need the token. The page itself has no data, and asks for all of it."""
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]*)(:\d{1,5})?")


class _Parts(NamedTuple):
    headers: dict[bytes, bytes]
    path: str
    query: bytes


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to the host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Guard:
    """ASGI application around another one that checks requests, and adds headers to responses."""

    def __init__(
        self, app: ASGIApp, *, token: str | None, hosts: Iterable[str] = (), cookie: str = "kohort_watch"
    ) -> None:
        """Create the guard.

        - `token`: Token that requests need; None for a server that only this machine can reach.
        - `hosts`: Further names under which users reach a server without a token.
        - `cookie`: Name of the cookie, which must differ between servers on one host.
        """
        self._app = app
        self._token = token
        self._hosts = frozenset(host.lower() for host in hosts)
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        # Routes see the path as it was sent: a decoded %2F in a group's ID would be a further segment.
        path = scope.get("raw_path", b"").decode("ascii", "replace")
        scope["path"] = path
        parts = _Parts(dict(scope["headers"]), path, scope.get("query_string", b""))
        answer = self._answer(scope, parts)
        await (self._app if answer is None else answer)(scope, receive, _with_headers(send))

    def _answer(self, scope: Scope, parts: _Parts) -> Response | None:
        """Return the answer to a request that must not reach the application."""
        checks: tuple[Callable[[Scope, _Parts], Response | None], ...] = (self._method, self._size, self._host)
        for check in (*checks, self._site, self._authorization):
            answer = check(scope, parts)
            if answer is not None:
                return answer
        return None

    def _method(self, scope: Scope, _parts: _Parts) -> Response | None:
        if scope["method"] in _METHODS:
            return None
        allowed = {"Allow": ", ".join(_METHODS)}
        if scope["method"] == "OPTIONS":
            return Response(status_code=204, headers=allowed)
        return refusal(405, "Only GET and HEAD are served here: nothing can be changed.", allowed)

    def _size(self, _scope: Scope, parts: _Parts) -> Response | None:
        if parts.headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in parts.headers:
            return None
        return refusal(413, "Requests have no body here.", {"Connection": "close"})

    def _host(self, _scope: Scope, parts: _Parts) -> Response | None:
        if self._token is not None:
            return None
        # DNS rebinding: a stranger's name may resolve to this machine, and its page would be of our origin.
        found = _HOST.fullmatch(parts.headers.get(b"host", b"").decode("latin-1"))
        if found is not None and (is_loopback(found[1]) or found[1].lower() in self._hosts):
            return None
        return refusal(400, "The host of this address is not known here: use http://localhost, or set a token.")

    def _site(self, _scope: Scope, parts: _Parts) -> Response | None:
        site, mode = parts.headers.get(b"sec-fetch-site", b"none"), parts.headers.get(b"sec-fetch-mode", b"navigate")
        if site in (b"none", b"same-origin") or mode == b"navigate":
            return None
        return refusal(403, "Other sites cannot read this.")

    def _authorization(self, scope: Scope, parts: _Parts) -> Response | None:
        if self._token is None:
            return None
        given = _token_of(parts.query)
        if given is not None:
            if not _equal(given, self._token):
                return self._refused()
            return self._to_the_same_without_token(scope, parts)
        if not parts.path.startswith(_PROTECTED) or self._is_known(parts.headers):
            return None
        return self._refused()

    def _is_known(self, headers: dict[bytes, bytes]) -> bool:
        assert self._token is not None
        kind, _, bearer = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if kind.lower() == "bearer":
            return _equal(bearer.strip(), self._token)
        try:
            cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            return False
        cookie = cookies.get(self._cookie)
        return cookie is not None and _equal(cookie.value, self._proof())

    def _proof(self) -> str:
        """Return the value of the cookie, which proves that its owner had the token, and does not contain it."""
        assert self._token is not None
        return hmac.new(self._token.encode(), b"kohort watch: cookie", hashlib.sha256).hexdigest()

    def _to_the_same_without_token(self, scope: Scope, parts: _Parts) -> Response:
        pairs = [
            pair for pair in parse_qsl(parts.query.decode("latin-1"), keep_blank_values=True) if pair[0] != "token"
        ]
        # Two slashes would begin the name of another host.
        where = "/" + parts.path.lstrip("/\\")
        answer = RedirectResponse(where + (f"?{urlencode(pairs)}" if pairs else ""), status_code=303)
        answer.set_cookie(
            self._cookie, self._proof(), httponly=True, samesite="strict", secure=scope["scheme"] == "https"
        )
        return answer

    @staticmethod
    def _refused() -> Response:
        why = "A token is needed: open the page once with ?token=..., or send it as Authorization: Bearer."
        return refusal(401, why, {"WWW-Authenticate": "Bearer"})


def refusal(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error with a sentence."""
    return JSONResponse({"error": sentence}, status_code=status, headers=headers)


def _token_of(query: bytes) -> str | None:
    if b"token=" not in query:
        return None
    return dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)).get("token")


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in HEADERS}
            kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in own]
            message["headers"] = [*kept, *HEADERS]
        await send(message)

    return sending
