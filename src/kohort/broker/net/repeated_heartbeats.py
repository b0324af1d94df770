"""Memory of the last heartbeat and its answer, which are the same bytes for hours: neither is decoded or encoded twice.

It changes only the cost of the next heartbeat. Code that handles requests and answers must never modify the messages
that are remembered here.
"""

from kohort.broker.net.route import Route
from kohort.wire.codec import Message

LARGEST = 1 << 10
"""Largest request that is remembered, in bytes; a heartbeat without changes has about a hundred."""


class RepeatedHeartbeat:
    """The last heartbeat of one connection, and the answer to it."""

    __slots__ = ("answer", "payload", "repeats", "request", "route", "said", "size")

    def __init__(self, route: Route, said: bytes, request: Message) -> None:
        self.route = route
        self.said = said
        """The frame after its correlation ID."""
        self.request = request
        """The decoded message. The next heartbeat of the same bytes is this object."""
        self.answer: Message | None = None
        """The last answer to it; the next one usually is this object."""
        self.payload = b""
        """The answer's frame after its correlation ID."""
        self.size = 0
        """The size in that frame's header."""
        self.repeats = 0
        """Number of repetitions that got this answer and are not yet in the broker's metrics."""

    @property
    def request_size(self) -> int:
        """Size of the request, in bytes."""
        return len(self.said) + 8

    @property
    def error_code(self) -> int:
        """Error code of the answer."""
        code: int = getattr(self.answer, "error_code", 0)
        return code
