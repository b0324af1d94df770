"""A receiver of webhooks: a real HTTP server in a thread, which answers as told."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE_S = 30.0


@dataclass(frozen=True)
class Got:
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass
class Receiver:
    """What arrived. `answers` are given in turn; 200 after them."""

    port: int = 0
    got: list[Got] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    silent: threading.Event = field(default_factory=threading.Event)
    """While set, requests are taken and not answered."""
    answering: threading.Event = field(default_factory=threading.Event)
    """While not set, answers wait."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def url(self, path: str = "/hook", scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    def wait(self, number: int) -> list[Got]:
        """Wait until this many requests have arrived."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.got) >= number, PATIENCE_S), self.got
            return list(self.got)


@contextmanager
def receiving(context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.answering.set()
    go_on = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with receiver.changed:
                answer, headers = receiver.answers.pop(0) if receiver.answers else (200, {})
                receiver.got.append(Got(self.path, dict(self.headers), body))
                receiver.changed.notify_all()
            if receiver.silent.is_set():
                go_on.wait(PATIENCE_S)
                return
            receiver.answering.wait(PATIENCE_S)
            self.send_response(answer)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield receiver
    finally:
        go_on.set()
        receiver.answering.set()
        server.shutdown()
        server.server_close()
        thread.join()
