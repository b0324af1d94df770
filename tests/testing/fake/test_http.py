"""The HTTP server against peers that are slow, many, or say one thing and do another."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kohort.testing.fake.http import Bounds, HttpServer, Problem, Request, Route, usage

PATIENCE_S = 30.0
SHORT = Bounds(connections=5, body_bytes=1000, request_s=0.3, idle_s=0.5)


def fail(request: Request) -> Any:
    raise ZeroDivisionError("a mistake of ours")


def refuse(request: Request) -> Any:
    raise usage("not so")


def missing(request: Request) -> Any:
    raise Problem(404, "no fault 2")


def wait(request: Request) -> Any:
    return request.wait(lambda: None)


ROUTES = (
    Route("GET", "/hello", lambda request: {"hello": "wörld"}),
    Route("POST", "/echo/{what}", lambda request: [*request.values, request.body.decode()]),
    Route("DELETE", "/echo/{what}", missing),
    Route("POST", "/fail", fail),
    Route("POST", "/refuse", refuse),
    Route("POST", "/wait", wait),
)


@contextlib.contextmanager
def serving(bounds: Bounds = SHORT, host: str = "127.0.0.1") -> Iterator[HttpServer]:
    server = HttpServer(host, 0, ROUTES, bounds)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with serving() as running:
        yield running


@contextlib.contextmanager
def connected(server: HttpServer) -> Iterator[socket.socket]:
    with socket.create_connection((server.host, server.port), timeout=PATIENCE_S) as connection:
        yield connection


def answers(connection: socket.socket) -> bytes:
    """All that the server sends until it closes."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(65_536):
            received += data
    return received


def told(server: HttpServer, request: bytes) -> bytes:
    with connected(server) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request)
        return answers(connection)


def ask(
    server: HttpServer, method: str, path: str, body: str | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def test_routes_answer_json_on_a_connection_that_stays(server: HttpServer) -> None:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE_S)
    for _ in range(3):
        connection.request("GET", "/hello?x=1")
        response = connection.getresponse()
        assert (response.status, response.getheader("Content-Type")) == (200, "application/json")
        assert json.loads(response.read()) == {"hello": "wörld"}
    connection.request("POST", "/echo/a%2Fb", "ü".encode())
    assert json.loads(connection.getresponse().read()) == ["a/b", "ü"]
    connection.close()


def test_a_head_request_is_a_get_without_its_body(server: HttpServer) -> None:
    status, headers, body = ask(server, "HEAD", "/hello")
    assert (status, headers["content-length"], body) == (200, str(len('{"hello":"wörld"}'.encode())), b"")


def test_problems_are_json_and_those_of_the_path_are_text(server: HttpServer) -> None:
    assert ask(server, "POST", "/refuse")[::2] == (400, b'{"error":"not so","usage":true}')
    assert ask(server, "DELETE", "/echo/2")[::2] == (404, b'{"error":"no fault 2"}')
    for path in ("/", "/nothing", "/hello/", "/echo/", "/echo/a/b"):
        status, headers, body = ask(server, "GET", path)
        assert (status, body) == (404, b"404 page not found\n"), path
        assert headers["content-type"] == "text/plain; charset=utf-8"
    status, headers, body = ask(server, "PUT", "/echo/a")
    assert (status, headers["allow"], body) == (405, "DELETE, POST", b"Method Not Allowed\n")
    assert ask(server, "POST", "/hello")[1]["allow"] == "GET, HEAD"


def test_a_mistake_of_ours_is_an_answer_and_a_line_in_the_log(
    server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    status, _, body = ask(server, "POST", "/fail")
    assert status == 500
    assert b"a mistake of ours" in body
    assert "ZeroDivisionError" in caplog.text


def test_a_chunked_body_is_put_together(server: HttpServer) -> None:
    chunks = b"5\r\nhello\r\n3;x=y\r\n, w\r\n0\r\nTrailer: x\r\n\r\n"
    head = b"POST /echo/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert told(server, head + chunks).endswith(b'["a","hello, w"]')


@pytest.mark.parametrize(
    ("request_lines", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /hello HTTP/0.9\r\nHost: localhost\r\n\r\n", b"505"),
        (b"GET /hello HTTP/3.0\r\nHost: localhost\r\n\r\n", b"505"),
        (b"GET /hello HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /hello HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"414"),
        (b"GET /hello HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", b"431"),
        (b"GET /hello HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 500 + b"\r\n", b"431"),
        (b"POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x10\r\n\r\n", b"400"),
        (b"POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", b"400"),
        (b"POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999999999999\r\n\r\n", b"400"),
        (b"POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n", b"413"),
        (
            b"POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"400",
        ),
        (b"POST /echo/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", b"400"),
        (b"POST /echo/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", b"400"),
        (b"POST /echo/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n", b"413"),
        (b"POST /echo/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc", b"400"),
    ],
    ids=range(18),
)
def test_a_request_that_is_not_valid_is_refused_and_its_connection_closed(
    server: HttpServer, request_lines: bytes, status: bytes
) -> None:
    answer = told(server, request_lines)
    assert answer == b"" or answer.split()[1] == status  # nothing if the peer still sends when the server closes
    assert answer or len(request_lines) > 10_000
    assert ask(server, "GET", "/hello")[0] == 200


def test_a_request_whose_end_does_not_come_is_given_up(server: HttpServer) -> None:
    for begun in (
        b"GET /hel",
        b"POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nonly this",
        b"",
    ):
        began = time.monotonic()
        assert told(server, begun) == b""
        assert time.monotonic() - began < PATIENCE_S / 2


def test_a_request_that_comes_byte_by_byte_gains_no_time(server: HttpServer) -> None:
    with connected(server) as connection:
        connection.settimeout(0.02)
        until = time.monotonic() + PATIENCE_S
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(b"GET /hello HTTP/1.1\r\nX: ")
            while time.monotonic() < until:
                connection.sendall(b"a")
                with contextlib.suppress(TimeoutError):
                    if connection.recv(1) == b"":
                        break
        assert time.monotonic() < until


def test_there_are_no_more_connections_than_allowed(server: HttpServer) -> None:
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(connected(server)) for _ in range(SHORT.connections)]
        for connection in waiting:
            connection.sendall(b"POST /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert told(server, b"").startswith(b"HTTP/1.1 503 ")
        for connection in waiting:
            connection.close()
        until = time.monotonic() + PATIENCE_S
        while True:  # until the server has seen that the peers are gone
            with contextlib.suppress(http.client.HTTPException, OSError):
                if ask(server, "GET", "/hello")[0] == 200:
                    break
            assert time.monotonic() < until
            time.sleep(0.01)


def test_a_wait_ends_when_the_server_stops() -> None:
    with serving(Bounds()) as server, connected(server) as connection, connected(server) as idle:
        connection.sendall(b"POST /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert ask(server, "GET", "/hello")[0] == 200  # the wait was accepted before
        began = time.monotonic()
        server.stop()
        assert answers(connection).startswith(b"HTTP/1.1 503 ")
        assert answers(idle) == b""
        assert time.monotonic() - began < PATIENCE_S / 2
    assert not [thread.name for thread in threading.enumerate() if thread.name == "kohort-control"]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:80", "[::1]:9099", "LOCALHOST", "192.0.2.1"])
def test_a_host_that_no_name_server_decides_is_accepted(server: HttpServer, host: str) -> None:
    assert ask(server, "GET", "/hello", Host=host)[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example.com", "localhost.example.com:9099", "127.0.0.1.example.com", "", "[::1"]
)
def test_another_host_is_refused_because_its_name_may_have_been_changed(server: HttpServer, host: str) -> None:
    assert ask(server, "GET", "/hello", Host=host)[0] == 403


def test_a_web_page_may_not_use_it(server: HttpServer) -> None:
    assert ask(server, "POST", "/echo/a", "{}", Origin="http://example.com")[0] == 403
    assert ask(server, "POST", "/echo/a", "{}", Origin="null")[0] == 403
    assert ask(server, "POST", "/echo/a", "{}", Origin=f"http://{server.address}")[0] == 200


def test_listening_for_other_machines_accepts_their_names_for_this_one() -> None:
    with serving(host="0.0.0.0") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        connection.request("GET", "/hello", headers={"Host": "kafka:9099"})
        assert connection.getresponse().status == 200
        connection.close()
