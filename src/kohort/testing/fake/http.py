"""A small HTTP server for JSON, with bounds for all that a peer decides: sizes, times, and the number of connections.

Only names that a web page cannot take over are accepted as the host of a request (DNS rebinding), and no request of a
web page of another origin.
"""

import contextlib
import io
import ipaddress
import json
import logging
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from kohort.errors import KohortError

_T = TypeVar("_T")

log = logging.getLogger("kohort.testing")

_LOOK_EVERY_S = 0.02
_ENDS_WITHIN_S = 0.5
_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a peer may use."""

    connections: int = 128
    body_bytes: int = 1 << 20
    request_s: float = 10.0
    """Time for all bytes of a request, and for all bytes of an answer."""
    idle_s: float = 300.0
    """Time that a connection may wait for its next request."""


_USUAL = Bounds()


class Problem(Exception):
    """A request that is refused: an HTTP status, a sentence, and whether the caller used the endpoint wrongly."""

    def __init__(self, status: int, sentence: str, *, usage: bool = False) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.usage = usage


def usage(sentence: str, status: int = HTTPStatus.BAD_REQUEST) -> Problem:
    """Return the problem of a request that its sender must change."""
    return Problem(status, sentence, usage=True)


class Deserted(Exception):
    """The peer no longer waits, or the server stops."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as its handler sees it."""

    values: Sequence[str]
    """The parts of the path that the route leaves open."""
    body: bytes
    is_deserted: Callable[[], bool]
    """Whether the peer no longer waits, or the server stops."""

    def wait(self, look: Callable[[], _T | None], seconds: float | None = None) -> _T | None:
        """Call `look` until it returns a value, and return it; None after `seconds`. Raises Deserted."""
        until = None if seconds is None else time.monotonic() + seconds
        while (found := look()) is None:
            rest = _LOOK_EVERY_S if until is None else min(_LOOK_EVERY_S, until - time.monotonic())
            if rest <= 0:
                return None
            if self.is_deserted():
                raise Deserted
            time.sleep(rest)
        return found


Handler = Callable[[Request], Any]
"""Returns what becomes the JSON of the answer. Raises Problem, Deserted, KohortError."""


@dataclass(frozen=True, slots=True)
class Route:
    """A handler, and the requests that it takes: a method, and a path such as /faults/{id}/wait."""

    method: str
    path: str
    handler: Handler

    def match(self, path: str) -> list[str] | None:
        """Return the open parts of a path that is this route's, else None."""
        wanted, given = self.path.split("/"), path.split("/")
        if len(wanted) != len(given):
            return None
        values = []
        for want, have in zip(wanted, given, strict=True):
            if want.startswith("{"):
                if not have:
                    return None
                values.append(unquote(have))
            elif want != unquote(have):
                return None
        return values


class HttpServer:
    """Serves routes in threads, from `start` to `stop`."""

    def __init__(self, host: str, port: int, routes: Sequence[Route], bounds: Bounds = _USUAL) -> None:
        """Listen. Port 0 takes a free one. Raises KohortError if the address cannot be used."""
        try:
            self._server = _Server(host, port, routes, bounds)
        except OSError as error:
            raise KohortError(
                f"The control endpoint cannot listen on {_joined(host, port)}: {error.strerror or error}."
            ) from error
        self.host = str(self._server.server_address[0])
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": _LOOK_EVERY_S}, name="kohort-control"
        )

    @property
    def address(self) -> str:
        """The address, as HOST:PORT."""
        return _joined(self.host, self.port)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """End all requests, also those that wait, and close all connections."""
        if self._thread.is_alive():
            self._server.stopping.set()
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._server.end_connections()


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, routes: Sequence[Route], bounds: Bounds) -> None:
        self.routes = routes
        self.bounds = bounds
        self.stopping = threading.Event()
        self.any_host = not _is_loopback(host)
        """Who listens for other machines, in a network of containers for example, may be reached by any name."""
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # that of HTTPServer asks a name server for the name of the host

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            is_full = len(self._connections) >= self.bounds.connections
            if not is_full:
                thread = threading.Thread(
                    target=self.process_request_thread, args=(request, client_address), daemon=True
                )
                self._connections[request] = thread
        if is_full:
            log.warning("the control endpoint has %d connections and takes no more", self.bounds.connections)
            request.setblocking(False)
            with contextlib.suppress(OSError):
                request.send(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self.shutdown_request(request)
        else:
            thread.start()

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.exception("a request to the control endpoint failed")

    def end_connections(self) -> None:
        """Let requests that wait be answered, and end the connections."""
        with self._lock:
            open_ones = list(self._connections.items())
        for connection, _ in open_ones:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)  # ends those that wait for a request
        until = time.monotonic() + _ENDS_WITHIN_S
        for connection, thread in open_ones:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket until a time: a peer that sends a byte now and then gains nothing."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.until = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        rest = self.until - time.monotonic()
        if rest <= 0:
            raise TimeoutError("the request did not arrive in time")
        self._connection.settimeout(rest)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = _DeadlineReader(self.connection)
        self.rfile = self._input = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        try:
            self._reader.until = time.monotonic() + self.server.bounds.idle_s
            if self.server.stopping.is_set() or not self._input.peek(1):
                self.close_connection = True
                return
            self._reader.until = time.monotonic() + self.server.bounds.request_s
            super().handle_one_request()
        except OSError as error:  # of the peer: too slow, or gone
            log.debug("a connection of the control endpoint ends: %s", error)
            self.close_connection = True

    def _serve(self) -> None:
        try:
            self._check_sender()
            body = self._read_body()
            handler, values = self._find()
            request = Request(values, body, self._is_deserted)
            self._answer(HTTPStatus.OK, _json(handler(request)), "application/json")
        except _Text as refused:
            self.close_connection |= refused.closes
            self._answer(refused.status, f"{refused}\n".encode(), _TEXT, refused.allow)
        except Problem as problem:
            told: dict[str, Any] = {"error": problem.sentence}
            if problem.usage:
                told["usage"] = True
            self._answer(problem.status, _json(told), "application/json")
        except Deserted:
            self.close_connection = True
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, _json({"error": "the broker stops"}), "application/json")
        except KohortError as error:
            self._answer(HTTPStatus.BAD_REQUEST, _json({"error": str(error)}), "application/json")
        except OSError:
            raise
        except Exception as error:  # a bug of a handler must not look like a lost connection
            log.exception("a request to the control endpoint failed")
            told = {"error": f"internal error: {error!r}"}
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, _json(told), "application/json")

    do_GET = do_HEAD = do_POST = do_DELETE = do_PUT = do_PATCH = do_OPTIONS = _serve

    def _find(self) -> tuple[Handler, list[str]]:
        path = urlsplit(self.path).path
        methods = set()
        for route in self.server.routes:
            values = route.match(path)
            if values is None:
                continue
            if route.method == self.command or (route.method == "GET" and self.command == "HEAD"):
                return route.handler, values
            methods.add(route.method)
        if not methods:
            raise _Text(HTTPStatus.NOT_FOUND, "404 page not found")
        if "GET" in methods:
            methods.add("HEAD")
        raise _Text(HTTPStatus.METHOD_NOT_ALLOWED, "Method Not Allowed", allow=", ".join(sorted(methods)))

    def _check_sender(self) -> None:
        if self.request_version not in ("HTTP/1.0", "HTTP/1.1"):
            self.request_version = self.protocol_version  # otherwise, the answer has no headers
            raise _Text(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "The control endpoint takes HTTP/1.1.", closes=True)
        hosts = self.headers.get_all("Host", [])
        if len(hosts) > 1 or (not hosts and self.request_version == "HTTP/1.1"):
            raise _Text(HTTPStatus.BAD_REQUEST, "The request needs one Host header.", closes=True)
        if hosts and not self.server.any_host and not _is_local_name(hosts[0]):
            sentence = "The Host header must name this machine, such as localhost or 127.0.0.1."
            raise _Text(HTTPStatus.FORBIDDEN, sentence, closes=True)
        origin = self.headers.get("Origin")
        if origin is not None and (not hosts or urlsplit(origin).netloc.lower() != hosts[0].lower()):
            raise _Text(HTTPStatus.FORBIDDEN, "Web pages may not use the control endpoint.", closes=True)

    def _read_body(self) -> bytes:
        lengths = self.headers.get_all("Content-Length", [])
        coding = self.headers.get("Transfer-Encoding")
        if coding is not None:
            if lengths or coding.strip().lower() != "chunked":
                raise _Text(HTTPStatus.BAD_REQUEST, "The request has no valid length.", closes=True)
            return b"".join(self._chunks())
        if not lengths:
            return b""
        if len(lengths) > 1 or not re.fullmatch(r"\d{1,18}", lengths[0].strip(), re.ASCII):
            raise _Text(HTTPStatus.BAD_REQUEST, "The request has no valid length.", closes=True)
        length = int(lengths[0])
        if length > self.server.bounds.body_bytes:
            raise self._too_large()
        return self._read(length)

    def _chunks(self) -> Iterator[bytes]:
        total = 0
        while True:
            line = self.rfile.readline(100)
            found = re.fullmatch(rb"([0-9a-fA-F]{1,8})\s*(;.*)?\r?\n", line)
            if found is None:
                raise _Text(HTTPStatus.BAD_REQUEST, "A chunk of the request has no valid length.", closes=True)
            size = int(found[1], 16)
            total += size
            if total > self.server.bounds.body_bytes:
                raise self._too_large()
            if size == 0:
                break
            yield self._read(size)
            self._read_line_end()
        for _ in range(20):  # trailers, which nothing needs
            if self.rfile.readline(1000) in (b"\r\n", b"\n", b""):
                return
        raise _Text(HTTPStatus.BAD_REQUEST, "The request has too many trailers.", closes=True)

    def _read_line_end(self) -> None:
        if self.rfile.readline(2) not in (b"\r\n", b"\n"):
            raise _Text(HTTPStatus.BAD_REQUEST, "A chunk of the request is longer than its length.", closes=True)

    def _read(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            raise ConnectionResetError("the peer ended in the middle of a request")
        return data

    def _too_large(self) -> "_Text":
        sentence = f"A request may have at most {self.server.bounds.body_bytes} bytes."
        return _Text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence, closes=True)

    def _is_deserted(self) -> bool:
        if self.server.stopping.is_set():
            return True
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        try:
            return bool(poll.poll(0)) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    def _answer(self, status: int, body: bytes, content_type: str, allow: str | None = None) -> None:
        self.connection.settimeout(self.server.bounds.request_s)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if allow is not None:
            self.send_header("Allow", allow)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that could not be parsed."""
        self.close_connection = True
        self.request_version = self.protocol_version  # what it had may not be one
        self._answer(code, f"{message or HTTPStatus(code).phrase}\n".encode("utf-8", "replace"), _TEXT)

    def version_string(self) -> str:
        return "kohort"

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("control endpoint: " + format, *args)


class _Text(Exception):
    """An answer of the server itself, as text."""

    def __init__(self, status: HTTPStatus, sentence: str, *, allow: str | None = None, closes: bool = False) -> None:
        super().__init__(sentence)
        self.status = status
        self.allow = allow
        self.closes = closes


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_local_name(host: str) -> bool:
    """Return whether a Host header names this machine in a way that no name server can change."""
    name = re.sub(r":\d*$", "", host.strip())
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    if name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
