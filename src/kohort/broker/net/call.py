"""One request that waits for its answer. It is also the coordinator's token: its holder may reply, once."""

import struct
from collections.abc import Callable

from kohort.broker.net.connection import ClientConnection
from kohort.broker.net.route import Route
from kohort.wire.codec import Buffer, Message

answer_head = struct.Struct(">ii").pack
"""Packs the size of a frame and the correlation ID, which precede an answer."""
_prefix_size = 8
_size_bytes = 4
_flexible_prefix = struct.Struct(">iiB").pack
_JOIN_BELOW = 1 << 14


class Call:
    """A request, and its position among the answers of its connection."""

    __slots__ = (
        "amend",
        "answer",
        "connection",
        "correlation_id",
        "on_abandon",
        "on_reply",
        "queued",
        "request",
        "route",
        "size",
        "version",
    )

    def __init__(
        self, connection: ClientConnection, correlation_id: int, route: Route, request: Message, size: int = 0
    ) -> None:
        self.connection = connection
        self.correlation_id = correlation_id
        self.route = route
        self.version = route.version
        self.request = request
        self.size = size
        """Size of the request, in bytes."""
        self.answer: list[Buffer] | None = None
        self.amend: Callable[[Message], None] | None = None
        """Changes the response before it is sent; set by the guard of a request that is authorized in part."""
        self.queued = False
        """Whether it has its position in the queue; most calls are answered before they need one."""
        self.on_abandon: Callable[[], None] | None = None
        """Called when the connection closes before the answer; set by the component that parks the call."""
        self.on_reply: Callable[[Message], None] | None = None
        """Called once with the answer."""

    @property
    def open(self) -> bool:
        """Whether the peer still waits for this answer."""
        return self.answer is None and self.connection.transport is not None

    def wait(self) -> None:
        """Take a position in the queue of the connection's answers."""
        self.queued = True

    def reply(self, response: Message) -> None:
        """Send `response` once every earlier request of the connection is answered."""
        if self.answer is not None:
            return  # abandoned: the connection is closed
        self.on_abandon = None  # it may refer to this call, and a cycle would wait for the garbage collector
        if self.amend is not None:
            self.amend(response)
        last = self.connection.last_heartbeat
        if last is not None and last.answer is response and last.request is self.request:
            self.answer = [answer_head(last.size, self.correlation_id) + last.payload]
        elif (commits := self.connection.commits) is not None and commits.answer is response:
            self.answer = [answer_head(commits.size, self.correlation_id) + commits.payload]
        else:
            self._encode(response)
        if self.on_reply is not None:
            self.on_reply(response)
            self.on_reply = None
        if self.queued:
            self.connection.advance()

    def response_size(self, response: Message) -> int:
        """Return the size that the response would have, in bytes."""
        parts: list[Buffer] = []
        self.route.encode(response, parts)
        return sum(map(len, parts)) + _size_bytes

    def _encode(self, response: Message) -> None:
        parts: list[Buffer] = []
        route = self.route
        route.encode(response, parts)
        payload = parts[0] if len(parts) == 1 else b""
        body = len(payload) or sum(map(len, parts))
        if route.flexible_answer:
            head = _flexible_prefix(body + 5, self.correlation_id, 0)
        else:
            head = answer_head(body + 4, self.correlation_id)
        # Joining small parts is cheaper than a longer writev; records are never joined to anything.
        if body < _JOIN_BELOW:
            frame = head + (payload or b"".join(parts))
            self.answer = [frame]
            last = self.connection.last_heartbeat
            if last is not None and last.request is self.request:
                last.answer, last.payload, last.size = response, frame[_prefix_size:], len(frame) - 4
                last.error_code = getattr(response, "error_code", 0)
            commits = self.connection.commits
            if commits is not None and commits.shape is not None and commits.shape.accepted is response:
                commits.answer, commits.payload, commits.size = response, frame[_prefix_size:], len(frame) - 4
        else:
            self.answer = [head, *parts]
            self.connection.hold(len(head) + body)

    def complete_without_answer(self) -> None:
        """Complete the request without an answer (Produce with acks=0), so that later ones need not wait for one."""
        if self.answer is None:
            self.answer = []
            if self.queued:
                self.connection.advance()

    def abandon(self) -> None:
        """Drop later replies, because the connection is closed."""
        self.answer = []
        if self.on_abandon is not None:
            self.on_abandon()
