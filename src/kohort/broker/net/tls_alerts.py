"""The alert that tells a client why its TLS handshake failed.

OpenSSL writes it into a buffer, but asyncio and uvloop close the connection without sending it. The client then does
not know that its certificate is missing or rejected, and tries again and again.
"""

import socket
import ssl
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST"})
_PROTOCOL_VERSION = bytes.fromhex("15 0303 0002 02 46")
"""Alert 70, fatal. OpenSSL sends none to a client that does not begin with TLS."""
_UNREAD_BYTES = 1 << 16


class Alert:
    """The alert of one handshake, which the current task is about to begin. The caller closes it."""

    def __init__(self, accepted: socket.socket) -> None:
        self._accepted = accepted
        self._socket: socket.socket | None = None
        self._unsent = b""
        _current.set(self)

    def keep(self, unsent: bytes) -> None:
        """Keep the bytes that the handshake wrote when it failed, and the socket.

        The loop closes the socket before the caller learns of the failure. Until then, a handshake needs one file
        descriptor, because many may be under way.
        """
        self._unsent = unsent
        with suppress(OSError):  # there is no file descriptor left: the client gets no alert
            self._socket = self._accepted.dup()

    def send(self, error: ssl.SSLError) -> None:
        """Send the alert of a handshake that failed with this error, as far as the client can take it now."""
        if self._socket is None:
            return
        unsent = _PROTOCOL_VERSION if not self._unsent and error.reason in _NOT_TLS else self._unsent
        with suppress(OSError):  # the client may be gone
            self._socket.setblocking(False)
            self._socket.send(unsent)
            self._socket.shutdown(socket.SHUT_WR)
            # Closing a socket with unread data resets the connection, and the client could lose the alert.
            self._socket.recv(_UNREAD_BYTES)

    def close(self) -> None:
        """Release the socket."""
        if self._socket is not None:
            self._socket.close()


_current: ContextVar[Alert | None] = ContextVar("_current", default=None)
"""The alert of the handshake that this task does."""


class _Handshake(ssl.SSLObject):
    """Keeps what a handshake that fails has not sent."""

    alert: Alert | None = None
    asked_name: str | None = None
    """Name to which the client connects, if it said so (SNI)."""
    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self.alert is not None:
                self.alert.keep(self.outgoing.read())
            raise


class AlertingContext(ssl.SSLContext):
    """A context whose handshakes have an `Alert`."""

    sslobject_class = _Handshake

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *others: Any, **named: Any) -> ssl.SSLObject:
        """Begin a handshake, as asyncio does."""
        made = super().wrap_bio(incoming, outgoing, *others, **named)
        assert isinstance(made, _Handshake)
        made.alert, made.outgoing = _current.get(), outgoing
        return made


def keep_asked_name(handshake: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
    """Keep the name that the client asks for. It is the context's `sni_callback`."""
    assert isinstance(handshake, _Handshake)
    handshake.asked_name = name
