"""One request that waits for its answer. It is also the coordinator's token: whoever holds it may reply, once."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kohort.broker.connection import Connection
from kohort.wire.codec import Buffer, Message
from kohort.wire.decoding import Decoder

if TYPE_CHECKING:
    from kohort.broker.server import Broker

Handler = Callable[["Broker", "Call", Any], None]
"""Handles one request; it, or whoever it passes the call to, replies to the call."""

_prefix = struct.Struct(">ii").pack
_prefix_size = 8
_flexible_prefix = struct.Struct(">iiB").pack
_JOIN_BELOW = 1 << 14


@dataclass(frozen=True, slots=True)
class Route:
    """How one version of one request is read, handled and answered."""

    api_key: int
    version: int
    decode: Decoder[Any]
    encode: Callable[[Any, list[Buffer]], None]
    handler: Handler
    flexible_request: bool
    flexible_answer: bool
    """The answer's header has tagged fields; never so for ApiVersions."""
    repeats: bool
    """Clients send the same again and again: it is worth remembering, see `Repeat`."""


class Call:
    """A request's place in its connection's queue of answers."""

    __slots__ = (
        "answer",
        "connection",
        "correlation_id",
        "on_abandon",
        "on_reply",
        "queued",
        "request",
        "route",
        "version",
    )

    def __init__(self, connection: Connection, correlation_id: int, route: Route, request: Message) -> None:
        self.connection = connection
        self.correlation_id = correlation_id
        self.route = route
        self.version = route.version
        self.request = request
        self.answer: list[Buffer] | None = None
        self.queued = False
        """Whether it has a place in the queue already; most calls are answered before they need one."""
        self.on_abandon: Callable[[], None] | None = None
        """Whoever parks the call learns here that nobody waits for it any more."""
        self.on_reply: Callable[[Message], None] | None = None
        """Told of the answer, once."""

    @property
    def open(self) -> bool:
        """Whether the peer still waits for this answer."""
        return self.answer is None and self.connection.transport is not None

    def reply(self, response: Message) -> None:
        """Send `response` when every earlier request of the connection is answered."""
        if self.answer is not None:
            return  # abandoned: the connection is gone
        self.on_abandon = None  # it may hold this call: a cycle would wait for the collector
        last = self.connection.last_heartbeat
        if last is not None and last.answer is response and last.request is self.request:
            self.answer = [_prefix(last.size, self.correlation_id) + last.payload]
        else:
            self._encode(response)
        if self.on_reply is not None:
            self.on_reply(response)
            self.on_reply = None
        if self.queued:
            self.connection.advance()

    def _encode(self, response: Message) -> None:
        parts: list[Buffer] = []
        route = self.route
        route.encode(response, parts)
        payload = parts[0] if len(parts) == 1 else b""
        body = len(payload) or sum(map(len, parts))
        if route.flexible_answer:
            head = _flexible_prefix(body + 5, self.correlation_id, 0)
        else:
            head = _prefix(body + 4, self.correlation_id)
        # Joining what is small is cheaper than a longer writev; records are never joined to anything.
        if body < _JOIN_BELOW:
            frame = head + (payload or b"".join(parts))
            self.answer = [frame]
            last = self.connection.last_heartbeat
            if last is not None and last.request is self.request:
                last.answer, last.payload, last.size = response, frame[_prefix_size:], len(frame) - 4
        else:
            self.answer = [head, *parts]
            self.connection.hold(len(head) + body)

    def reply_nothing(self) -> None:
        """The request gets no answer (Produce with acks=0); later ones need not wait for one."""
        if self.answer is None:
            self.answer = []
            if self.queued:
                self.connection.advance()

    def abandon(self) -> None:
        """The connection is gone: a later reply is dropped."""
        self.answer = []
        if self.on_abandon is not None:
            self.on_abandon()
