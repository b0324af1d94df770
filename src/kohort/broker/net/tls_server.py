"""The listening sockets of a listener with TLS. A connection belongs to it until its handshake is complete.

It accepts connections itself, because asyncio's servers do not report handshakes that are under way or have failed.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial

from kohort.broker.net.newcomers import Newcomers
from kohort.broker.net.tls import ListenerTls
from kohort.broker.net.tls_alerts import Alert

log = logging.getLogger("kohort.broker")

_BACKLOG = 1024
_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_WAIT_FOR_RESOURCES_S = 1.0
_ABORTED = frozenset({errno.ECONNABORTED, errno.EAGAIN, errno.EINTR, errno.EPROTO})


class TlsServer:
    """Accepts connections, from `start` on."""

    def __init__(
        self,
        tls: ListenerTls,
        new_connection: Callable[[], asyncio.BaseProtocol],
        newcomers: Newcomers,
        refusal: Callable[[str], str | None],
        *,
        timeout_s: float,
    ) -> None:
        """`refusal` returns why a host may not begin another handshake; None if it may."""
        self._tls = tls
        self._new_connection = new_connection
        self._newcomers = newcomers
        self._refusal = refusal
        self._timeout_s = timeout_s
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen on all addresses of the host, and return the port. Raise OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        bound: list[socket.socket] = []
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                bound.append(socket.create_server((address[0], port), family=family, backlog=_BACKLOG))
                port = bound[-1].getsockname()[1]
        except OSError:
            for listening in bound:
                listening.close()
            raise
        for listening in bound:
            self.serve(listening)
        return port

    def serve(self, listening: socket.socket) -> None:
        """Accept the connections of a socket that listens."""
        listening.setblocking(False)
        self._sockets.append(listening)
        self._accepting.append(asyncio.get_running_loop().create_task(self._accept(listening)))

    def close(self) -> None:
        """Accept no more connections."""
        for task in self._accepting:
            task.cancel()
        for listening in self._sockets:
            listening.close()

    async def wait_closed(self) -> None:
        """End the handshakes under way."""
        tasks = [*self._accepting, *self._handshakes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in _NO_RESOURCES:
                    log.error(
                        "cannot accept connections, trying again in %g s: %s", _WAIT_FOR_RESOURCES_S, error.strerror
                    )
                    await asyncio.sleep(_WAIT_FOR_RESOURCES_S)
                elif error.errno not in _ABORTED:
                    log.error("a listening socket with TLS failed, and accepts no more connections: %s", error)
                    return
                continue
            peer = f"{address[0]}:{address[1]}"
            refusal = self._refusal(f"/{address[0]}")
            if refusal is not None:
                log.warning("closing connection peer=%s reason=%s", peer, refusal)
                accepted.close()
                continue
            task = loop.create_task(self._shake_hands(accepted, peer))
            self._handshakes.add(task)
            self._newcomers.add(task, f"/{address[0]}", partial(_drop, task, peer))
            task.add_done_callback(self._ended)

    def _ended(self, handshake: asyncio.Task[None]) -> None:
        self._handshakes.discard(handshake)
        self._newcomers.remove(handshake)

    async def _shake_hands(self, accepted: socket.socket, peer: str) -> None:
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop = asyncio.get_running_loop()
        alert = Alert(accepted)
        try:
            await loop.connect_accepted_socket(
                self._new_connection, accepted, ssl=self._tls.context(), ssl_handshake_timeout=self._timeout_s
            )
        except (OSError, EOFError) as error:  # ssl.SSLError and TimeoutError are OSErrors
            log.info("TLS handshake failed peer=%s reason=%s", peer, _reason(error))
            if isinstance(error, ssl.SSLError):
                alert.send(error)
            accepted.close()
        except BaseException:
            accepted.close()
            raise
        finally:
            alert.close()


def _drop(handshake: asyncio.Task[None], peer: str, reason: str) -> None:
    log.warning("closing connection peer=%s reason=%s", peer, reason)
    handshake.cancel()


def _reason(error: OSError | EOFError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is rejected: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).lower().replace("_", " ")
        if reason in ("wrong version number", "http request", "unknown protocol"):
            return "the client does not use TLS, as this listener requires"
        return reason
    if isinstance(error, TimeoutError) or "SSL handshake is taking longer" in str(error):
        return "it was not complete within authentication.timeout.ms"
    return str(error) or "the client closed the connection"
