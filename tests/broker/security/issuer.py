"""A token issuer on this machine: its keys, its tokens, and an endpoint for both."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

AUDIENCE, ISSUER = "kohort", "https://issuer.example.com"


def new_key(key_id: str | None, algorithm: str = "ES256") -> Key:
    parameters: Any = {} if key_id is None else {"kid": key_id}
    if algorithm.startswith("E") and algorithm[1] == "S":
        return ECKey.generate_key({"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm], parameters)
    if algorithm.startswith("Ed"):
        return OKPKey.generate_key("Ed25519", parameters)
    return RSAKey.generate_key(2048, parameters)


def token(key: Key, algorithm: str = "ES256", header: dict[str, Any] | None = None, **claims: Any) -> str:
    """A token that is valid but for the given claims; None leaves a claim out."""
    now = int(time.time())
    common = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 600}
    given = {name: value for name, value in (common | claims).items() if value is not None}
    merged = {"alg": algorithm, "kid": key.kid, **(header or {})}
    named = {name: value for name, value in merged.items() if value is not None}
    return jwt.encode(named, given, key, algorithms=[algorithm])


class Issuer:
    """Serves its keys at `jwks_url`, and at `token_url` gives tokens of the first key to clients with a secret."""

    def __init__(self) -> None:
        self.keys = [new_key("first")]
        self.reads = 0
        self.status = 200
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.reads += 1
                status = 200 if self.path == "/elsewhere" else issuer.status
                self.reply(status, {"keys": [key.as_dict(private=False) for key in issuer.keys]})

            def do_POST(self) -> None:
                asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                good = asked["grant_type"] == ["client_credentials"] and "Authorization" in self.headers
                self.reply(200 if good else 401, {"access_token": token(issuer.keys[0]), "expires_in": 600})

            def reply(self, status: int, value: object) -> None:
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"{base}/elsewhere")
                self.end_headers()
                self.wfile.write(json.dumps(value).encode())

            def log_message(self, *_: object) -> None:
                """Keep stderr quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        base = f"http://127.0.0.1:{self.server.server_port}"
        self.jwks_url, self.token_url = f"{base}/keys", f"{base}/token"


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    thread = threading.Thread(target=issuer.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield issuer
    finally:
        issuer.server.shutdown()
        thread.join()
        issuer.server.server_close()
