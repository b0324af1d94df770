"""Heartbeats are the same bytes for hours, and so are their answers: neither is read or written twice.

What a connection remembers of its last heartbeat changes nothing but what the next one costs. Who handles requests and
answers never changes one that is remembered here.
"""

from typing import TYPE_CHECKING

from kohort.wire.codec import Message

if TYPE_CHECKING:
    from kohort.broker.call import Route

LARGEST = 1 << 10
"""Bytes of a request that is worth remembering; a heartbeat that has nothing to say takes a hundred."""


class Repeat:
    """The last heartbeat of one connection, and the answer to it."""

    __slots__ = ("answer", "payload", "request", "route", "said", "size")

    def __init__(self, route: "Route", said: bytes, request: Message) -> None:
        self.route = route
        self.said = said
        """The frame behind its correlation id."""
        self.request = request
        """What it says. The next one of the same bytes is this very message."""
        self.answer: Message | None = None
        """The last answer to it; the next one mostly is this very message."""
        self.payload = b""
        """The answer's frame behind its correlation id."""
        self.size = 0
        """What that frame says of its size."""
