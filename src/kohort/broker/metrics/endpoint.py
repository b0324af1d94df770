"""HTTP server for one path, `/metrics`. It needs no package, and answers one request per connection."""

import asyncio
import logging
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

from kohort.broker.metrics.broker_metrics import BrokerMetrics
from kohort.errors import KohortError
from kohort.exposition import OPENMETRICS, TEXT, wants_openmetrics

log = logging.getLogger("kohort.broker")

_WITHIN_S = 10.0
"""Time within which a client must have sent its request and taken the answer."""
_MOST_BYTES = 16 << 10
_MOST_CONNECTIONS = 16


class MetricsEndpoint:
    """The server: `start` listens, `close` ends it."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        self._metrics = metrics
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""

    async def start(self, host: str, port: int) -> None:
        """Listen. Raise KohortError if the address cannot be used."""
        try:
            self._server = await asyncio.start_server(self._accept, host, port, limit=_MOST_BYTES)
        except OSError as error:
            raise KohortError(f"Metrics cannot be served on {host}:{port}: {error.strerror or error}.") from error
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{self._server.sockets[0].getsockname()[1]}"
        log.info("metrics at http://%s/metrics", self.address)

    async def start_at(self, socket: Path) -> None:
        """Listen at a socket of this path, for other processes. Raise KohortError if it cannot be used."""
        try:
            self._server = await asyncio.start_unix_server(self._accept, socket, limit=_MOST_BYTES)
        except OSError as error:
            raise KohortError(f"Metrics cannot be served at {socket}: {error.strerror or error}.") from error

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= _MOST_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_WITHIN_S):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                writer.write(self._answer(head))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that is too slow, sends too much or is gone gets no answer
        finally:
            writer.transport.abort()

    def _answer(self, head: list[str]) -> bytes:
        method, _, rest = head[0].partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, TEXT, b"Only GET is allowed.\n")
        if path != "/metrics":
            return _response(HTTPStatus.NOT_FOUND, TEXT, b"The metrics are at /metrics.\n")
        openmetrics = wants_openmetrics(_headers(head[1:]).get("accept", ""))
        body = self._metrics.body(openmetrics=openmetrics)
        return _response(HTTPStatus.OK, OPENMETRICS if openmetrics else TEXT, body, with_body=method == "GET")


def _headers(lines: list[str]) -> Mapping[str, str]:
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _response(status: HTTPStatus, kind: str, body: bytes, *, with_body: bool = True) -> bytes:
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        "",
        "",
    )
    return "\r\n".join(lines).encode() + (body if with_body else b"")
