"""A server of made clusters with the interface of `kohort watch`: its paths, headers and events."""

from __future__ import annotations

import json
import mimetypes
import queue
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.watch.page.clusters import MadeCluster
from tests.watch.page.made import NOW

PAGE = Path(__file__).parents[3] / "src/kohort/watch/web/page"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_GROUP = re.compile(r"^/api/groups/([^/]*)(?:/(timeline|rebalances)(?:/(\d+))?)?$")


class MadeServer(ThreadingHTTPServer):
    """Serves the page and a made cluster on a free port of the loopback."""

    daemon_threads = True

    def __init__(self, cluster: MadeCluster) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.cluster = cluster
        self.streams: list[queue.Queue[bytes | None]] = []
        """Open streams of events; None ends one."""
        self.asked: list[str] = []
        """Paths of the requests."""
        self.refuses_streams = False
        self.token: str | None = None
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def push(self, event: str, data: Any) -> None:
        """Send an event to all open streams. A page whose stream is not open yet misses it: wait until it is live."""
        text = f"event: {event}\ndata: {json.dumps(data)}\n\n".encode()
        for stream in list(self.streams):
            stream.put(text)

    def drop(self) -> None:
        """End all streams."""
        for stream in list(self.streams):
            stream.put(None)


class _Handler(BaseHTTPRequestHandler):
    server: MadeServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if self.server.token is not None and query.get("token") == self.server.token:
            self._admit(parts.path)
        elif parts.path.startswith("/static/"):
            self._file(PAGE / Path(parts.path).name)
        elif parts.path == "/events":
            self._events()
        elif parts.path.startswith("/api/"):
            status, value = self._api(parts.path, query)
            self._send(status, "application/json", json.dumps(value).encode())
        else:
            self._file(PAGE / "index.html")

    def _admit(self, path: str) -> None:
        self.send_response(303)
        self.send_header("Location", path)
        self.send_header("Set-Cookie", f"token={self.server.token}; HttpOnly; SameSite=Strict; Path=/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    @property
    def _is_admitted(self) -> bool:
        token = self.server.token
        return token is None or f"token={token}" in (self.headers.get("Cookie") or "")

    def _api(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        cluster = self.server.cluster
        if not self._is_admitted:
            return 401, {"error": "This needs the token."}
        if path == "/api/groups":
            return 200, cluster.document()
        found = _GROUP.match(path)
        group = cluster.groups.get(unquote(found[1])) if found else None
        if found is None or group is None:
            return 404, {"error": "This group is not known."}
        match found[2], found[3]:
            case "timeline", None:
                return 200, group.timeline(int(query["from"]), int(query["to"]))
            case "rebalances", str(generation):
                record = group.rebalance(int(generation))
                return (404, {"error": "This rebalance is not known."}) if record is None else (200, record)
            case None, None:
                return 200, group.detail()
        return 404, {"error": "There is no such path."}

    def _events(self) -> None:
        if self.server.refuses_streams or not self._is_admitted:
            self._send(503, "application/json", b'{"error":"not now"}')
            return
        stream: queue.Queue[bytes | None] = queue.Queue()
        stream.put(f'retry: 100\nevent: hello\ndata: {{"at": {NOW}}}\n\n'.encode())
        self.server.streams.append(stream)  # before the browser knows that it is open, so that no event is missed then
        try:
            self._head(200, "text/event-stream", None)
            while (text := stream.get()) is not None:
                self.wfile.write(text)
        except OSError:
            pass  # the browser closed the stream
        finally:
            self.server.streams.remove(stream)
            self.close_connection = True

    def _file(self, path: Path) -> None:
        if not path.is_file():
            self._send(404, "text/plain", b"no such file")
            return
        self._send(200, mimetypes.guess_type(path.name)[0] or "text/plain", path.read_bytes())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self._head(status, kind, len(body))
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the browser went to another page

    def _head(self, status: int, kind: str, length: int | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", CSP)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(cluster: MadeCluster) -> Iterator[MadeServer]:
    """Serve a cluster until the block ends."""
    server = MadeServer(cluster)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.drop()
        server.shutdown()
        thread.join()
        server.server_close()
