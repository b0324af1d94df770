"""The web server: uvicorn with limits for clients that are slow, silent or many."""

import asyncio
import errno
import logging
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from kohort.errors import ConfigError
from kohort.model import Millis
from kohort.watch import Live
from kohort.watch.history import Histories
from kohort.watch.web.application import Application, Metrics
from kohort.watch.web.documents import ClusterName, Documents
from kohort.watch.web.feed import Feed
from kohort.watch.web.guard import SHORTEST_TOKEN, Guard, is_loopback

log = logging.getLogger("kohort.watch")

_REQUEST_WITHIN_S = 15.0
"""Time within which a client must send its whole request."""
_READ_WITHIN_S = 60.0
"""Time within which a client must read what is sent to it."""
_KEEP_ALIVE_S = 30
_MOST_CONNECTIONS = 200
_MOST_HEADER_BYTES = 256 * 1024
"""A group's ID has up to 32 KiB, which percent-encoding makes three times as long."""
_STOP_WITHIN_S = 0.4


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Where and how the page is served."""

    host: str = "127.0.0.1"
    port: int = 9464
    """Port; 0 takes a free one."""
    token: str | None = field(default=None, repr=False)
    """Token that requests need. Required if other machines can connect."""
    certificate: Path | None = None
    """PEM file of the certificate chain; None serves without TLS."""
    key: Path | None = None
    """PEM file of the private key; None if it is in `certificate`."""

    def check(self) -> None:
        """Raise ConfigError if the page would be open to strangers, or if a file cannot be used."""
        if self.token is not None and (len(self.token) < SHORTEST_TOKEN or not self.token.isascii()):
            raise ConfigError(f"The token must have at least {SHORTEST_TOKEN} characters, all of them ASCII.")
        if self.token is None and not is_loopback(self.host):
            raise ConfigError(
                f"Other machines could read the page on {self.host or 'all addresses'}: set a token by"
                " KOHORT_WATCH_TOKEN (kohort watch: or by --token-file), or listen on 127.0.0.1."
            )
        if self.key is not None and self.certificate is None:
            raise ConfigError("A private key without a certificate has no effect: give --tls-cert, too.")
        if self.certificate is not None:
            _check_certificate(self.certificate, self.key)


class WebServer:
    """The page, its API and its events for `live`. Use it as an async context manager.

    Create it before the sources report to `live`, because a sink sees only later events.
    """

    def __init__(
        self,
        live: Live,
        options: WebOptions,
        *,
        cluster: ClusterName,
        metrics: Metrics | None = None,
    ) -> None:
        """Check the options. Raises ConfigError."""
        options.check()
        self.live = live
        self._options = options
        self._histories = Histories(live)
        self._documents = Documents(live, self._histories, cluster)
        self._feed = Feed(live, self._documents, _now)
        sinks = (self._histories.sink, self._documents.sink, self._feed.sink)
        self._unsubscribe = [live.subscribe(sink) for sink in sinks]
        self._application = Application(live, self._documents, self._feed, _now, metrics)
        self._server: _Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._address = (options.host, options.port)

    @property
    def url(self) -> str:
        """Address of the page, such as http://127.0.0.1:9464."""
        host, port = self._address
        scheme = "http" if self._options.certificate is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    async def ended(self) -> None:
        """Wait until the server ends by an error, which is then in the log."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            log.error("The page failed.", exc_info=None if task.cancelled() else task.exception())

    async def __aenter__(self) -> Self:
        """Listen. Raises ConfigError if the address cannot be used."""
        options = self._options
        listening = await _listening_socket(options.host, options.port)
        port = listening.getsockname()[1]
        self._address = (options.host or "0.0.0.0", port)
        guard = Guard(self._application.asgi, token=options.token, hosts=(options.host,), cookie=f"kohort_watch_{port}")
        self._server = _Server(_config(guard, options))
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        self._tasks = [
            asyncio.create_task(self._server.serve(sockets=[listening]), name="kohort-watch-web"),
            asyncio.create_task(self._feed.run(), name="kohort-watch-feed"),
        ]
        while not self._server.started:
            if self._tasks[0].done():
                self._tasks[0].result()
                raise ConfigError(f"The page cannot be served at {self.url}.")
            await asyncio.sleep(0.01)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.begin_stop()
        serving, feed = self._tasks
        assert self._server is not None
        await asyncio.wait([serving], timeout=_STOP_WITHIN_S)
        if not serving.done():
            self._server.abort()
        await asyncio.gather(serving, feed, return_exceptions=True)

    def begin_stop(self) -> None:
        """Take no more connections, and end the streams of events."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe.clear()
        self._feed.close()
        self._tasks[1].cancel()
        assert self._server is not None
        self._server.should_exit = True


class _Server(Server):
    """Server that leaves signals to the program."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def abort(self) -> None:
        """End without waiting for clients."""
        self.force_exit = True
        for connection in list(self.server_state.connections):
            connection.transport.abort()


class _Protocol(H11Protocol):
    """Connection whose client must send and read in time."""

    _request_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "abort": self._abort}
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._request_timer, self._read_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            if self._request_timer is not None:
                self._request_timer.cancel()
                self._request_timer = None
        elif self.timeout_keep_alive_task is None and self._request_timer is None:
            self._expect_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._read_timer is None:
            self._read_timer = self.loop.call_later(_READ_WITHIN_S, self._abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _expect_request(self) -> None:
        self._request_timer = self.loop.call_later(_REQUEST_WITHIN_S, self._abort)

    def _abort(self) -> None:
        self.transport.abort()


def _config(guard: Guard, options: WebOptions) -> Config:
    settings: dict[str, Any] = {}
    if options.certificate is not None:
        settings = {"ssl_certfile": options.certificate, "ssl_keyfile": options.key}
    return Config(
        guard,
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # it would print tokens of queries
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        limit_concurrency=_MOST_CONNECTIONS,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        **settings,
    )


async def _listening_socket(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        listening = socket.socket(family, kind, protocol)
    except OSError as problem:
        raise ConfigError(f"The page cannot listen on {host}: {problem.strerror}.") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as problem:
        listening.close()
        taken = ": choose another port, or 0 for a free one" if problem.errno == errno.EADDRINUSE else ""
        raise ConfigError(f"The page cannot listen on {host}:{port}: {problem.strerror}{taken}.") from None
    return listening


def _check_certificate(certificate: Path, key: Path | None) -> None:
    def no_password() -> str:
        raise ConfigError(f"The private key {key or certificate} is encrypted: give one that is not.")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, no_password)
    except (OSError, ssl.SSLError) as problem:
        why = problem.strerror or problem
        if isinstance(problem, ssl.SSLError) and problem.reason is None:  # OpenSSL says only: PEM lib
            why = "a file is not in PEM, or has no certificate or no key"
        raise ConfigError(f"The certificate {certificate} cannot be used with its key: {why}.") from None


def _now() -> Millis:
    return time.time_ns() // 1_000_000
