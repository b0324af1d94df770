"""Memory of the shape of a connection's commits and of the bytes of their answer; see `kohort.wire.commits`."""

from kohort.broker.net.route import Route
from kohort.wire.codec import Message
from kohort.wire.commits import CommitShape, RepeatedCommit, shape_of
from kohort.wire.messages.offset_commit import OffsetCommitRequest

_ENOUGH = 8
"""Number of commits whose savings pay for learning their shape."""
_MOST_WAITED = 64


class RepeatedCommits:
    """The shape of the last commits of one connection."""

    __slots__ = ("_patience", "_wait", "answer", "hits", "payload", "route", "shape", "size")

    def __init__(self) -> None:
        self.route: Route | None = None
        """The route of the commits with the shape; None if no shape is known."""
        self.shape: CommitShape | None = None
        self.answer: Message | None = None
        """The shape's answer, if its bytes are known."""
        self.payload = b""
        """The answer's frame after its correlation ID."""
        self.size = 0
        """The size in that frame's header."""
        self.hits = 0
        """Number of commits that had the shape since it was learnt."""
        self._patience = 1
        self._wait = 0

    def read(self, frame: bytes) -> RepeatedCommit | None:
        """Decode a frame of `route`; None if it has another shape."""
        assert self.shape is not None
        found = self.shape.read(frame)
        if found is not None:
            self.hits += 1
        return found

    def learn(self, route: Route, frame: bytes, begin: int, request: OffsetCommitRequest) -> None:
        """Learn the shape of a commit that was handled, unless learning has been of little use so far."""
        if self._wait:
            self._wait -= 1
            return
        self._patience = 1 if self.hits >= _ENOUGH else min(2 * self._patience, _MOST_WAITED)
        self._wait, self.hits = self._patience - 1, 0
        self.shape, self.answer = shape_of(frame, begin, request, route.version), None
        self.route = None if self.shape is None else route

    def forget(self) -> None:
        """Forget the shape."""
        self.route = self.shape = self.answer = None
