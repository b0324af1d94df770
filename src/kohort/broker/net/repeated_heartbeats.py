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

    __slots__ = ("answer", "error_code", "payload", "repeats", "request", "request_size", "route", "said", "size")

    def __init__(self, route: Route, said: bytes, request: Message) -> None:
        self.route = route
        self.said = said
        """The frame after its correlation ID."""
        self.request_size = len(said) + 8
        """Size of the request, in bytes."""
        self.request = request
        """The decoded message. The next heartbeat of the same bytes is this object."""
        self.answer: Message | None = None
        """The last answer to it; the next one usually is this object."""
        self.error_code = 0
        """Error code of the answer."""
        self.payload = b""
        """The answer's frame after its correlation ID."""
        self.size = 0
        """The size in that frame's header."""
        self.repeats = 0
        """Number of repetitions that got this answer and are not yet in the broker's metrics."""
