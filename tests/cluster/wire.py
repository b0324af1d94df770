"""The way between a broker and its database, which can be cut: a proxy on a Unix socket."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path


class Wire:
    """Forwards everything, until it is told to lose something."""

    def __init__(self, directory: Path, dsn: str) -> None:
        found = re.search(r"host=(\S+)", dsn)
        assert found is not None
        self._server = f"{found[1]}/.s.PGSQL.5432"
        self.dsn = dsn.replace(found[0], f"host={directory}")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{directory}/.s.PGSQL.5432")
        self._listener.listen()
        self._flowing = threading.Event()
        self._flowing.set()
        self._lose: tuple[bytes, bool] | None = None
        self.lost = threading.Event()
        """Set when what was to be lost is lost."""
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, mark: bytes, *, answer: bool) -> None:
        """Break the connection at the next request with the mark: before it arrives, or before its answer does."""
        self.lost.clear()
        self._lose = mark, answer

    def hold(self) -> None:
        """Pass no more data, without closing the connections."""
        self._flowing.clear()

    def flow(self) -> None:
        """Everything passes again, what was held first."""
        self._flowing.set()

    def break_connections(self) -> None:
        """Both ends are told, whatever is under way."""
        broken, self._sockets = self._sockets, []
        _end(*broken)

    def close(self) -> None:
        self._flowing.set()
        for sock in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._server)
            except OSError:  # it is down
                client.close()
                server.close()
                continue
            self._sockets += [client, server]
            deaf = threading.Event()
            threading.Thread(target=self._requests, args=(client, server, deaf), daemon=True).start()
            threading.Thread(target=self._answers, args=(client, server, deaf), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, deaf: threading.Event) -> None:
        for data in _chunks(client):
            self._flowing.wait()
            lose = self._lose
            if lose is not None and lose[0] in data:
                self._lose = None
                if lose[1]:
                    deaf.set()  # the next thing that the server says is lost, and the connection with it
                else:
                    self.lost.set()
                    break
            with contextlib.suppress(OSError):  # the test is over
                server.sendall(data)
        _end(client, server)

    def _answers(self, client: socket.socket, server: socket.socket, deaf: threading.Event) -> None:
        for data in _chunks(server):
            self._flowing.wait()
            if deaf.is_set():
                self.lost.set()
                break
            with contextlib.suppress(OSError):
                client.sendall(data)
        _end(client, server)


def _chunks(sock: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            data = sock.recv(1 << 16)
        except OSError:
            return
        if not data:
            return
        yield data


def _end(*sockets: socket.socket) -> None:
    for sock in sockets:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def wire_to(directory: Path, dsn: str) -> Iterator[Wire]:
    """A wire in that directory, whose path must be short."""
    wire = Wire(directory, dsn)
    try:
        yield wire
    finally:
        wire.close()
