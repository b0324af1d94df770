"""Cut a stream of Kafka frames, and pass most of them on as the bytes that arrived. Pure.

A gateway reads few of the requests and responses. All others, which may be large, are not
collected: their bytes leave in the pieces in which they arrived.
"""

from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import Protocol

_SIZE = Struct(">i").unpack_from


class BadStream(Exception):
    """The peer does not follow the Kafka protocol. Its connection must be closed."""


class Fate(Enum):
    """What happens to a frame, decided by its first bytes."""

    UNDECIDED = "more of its first bytes are needed"
    PASS = "its bytes are passed on as they arrive"
    COLLECT = "it is handed over whole"
    WALK = "its bytes are passed on as they arrive, but for its end"


Decide = Callable[[memoryview, int], Fate]
"""Returns the fate of a frame from its first bytes, without the size, and the size of the frame.

It is called again with more bytes while the fate is undecided, and must decide when it has the whole frame.
"""


class Walk(Protocol):
    """Finds the end of a frame that is not passed on as it is; see `kohort.gateway.endpoints`."""

    is_done: bool

    def feed(self, data: memoryview) -> int:
        """Take the next bytes. Return how many of them are before the end. Raises BadStream."""


_LARGEST_END = 1 << 20
"""Maximum size of the end of a frame, which is collected."""


class FrameStream:
    """One direction of a connection.

    `passed` receives bytes, sizes of frames included, and `collected` whole frames without their
    size, both in the order of the stream.
    """

    __slots__ = (
        "_begin_walk",
        "_collected",
        "_decide",
        "_end",
        "_end_walk",
        "_left",
        "_max_collected",
        "_max_frame",
        "_passed",
        "_rest",
        "_walk",
        "_wanted",
        "is_paused",
    )

    def __init__(
        self,
        decide: Decide,
        passed: Callable[[memoryview], None],
        collected: Callable[[bytes], None],
        *,
        max_frame: int,
        max_collected: int | None = None,
        begin_walk: Callable[[memoryview], Walk] | None = None,
        end_walk: Callable[[Walk, bytes], bytes] | None = None,
    ) -> None:
        """`begin_walk` is needed for `Fate.WALK`; `end_walk` returns as many bytes in place of the end of a frame.

        `max_frame` and `max_collected` are maximum sizes of frames in bytes; by default both are the same.
        """
        self._begin_walk, self._end_walk = begin_walk, end_walk
        self._walk: Walk | None = None
        """The frame that is passed on, but for its end; None for another one."""
        self._end = bytearray()
        self._decide, self._passed, self._collected = decide, passed, collected
        self._max_frame = max_frame
        self._max_collected = max_frame if max_collected is None else max_collected
        self._left = 0
        """Bytes that are missing of the frame that is passed on."""
        self._rest = bytearray()
        """Beginning of a frame that is undecided or collected."""
        self.is_paused = False
        """Whether further frames wait. Whoever handles a collected frame may set it."""
        self._wanted = 0
        """Size with which the frame in `_rest` is complete; 0 if its fate is undecided."""

    def resume(self) -> None:
        """Take the frames that arrived while `is_paused` was set. Raises BadStream."""
        self.is_paused = False
        self.feed(b"")

    @property
    def is_passing(self) -> bool:
        """Whether a part of a frame has been passed on, and the rest has not arrived."""
        return bool(self._left)

    @property
    def mid_frame(self) -> bool:
        """Whether a frame has arrived only in part."""
        return bool(self._left or self._rest)

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream. Raises BadStream."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted or self.is_paused:
                return  # looking at the frame again for each piece would be quadratic
            data, self._rest, self._wanted = bytes(self._rest), bytearray(), 0
        position, end = min(self._left, len(data)), len(data)
        self._left -= position
        begin = 0  # of the bytes that leave together
        view = memoryview(data)
        if self._walk is not None:
            begin = self._walked(view, 0, 0, position)
        while end - position >= 4 and not self.is_paused:
            (size,) = _SIZE(data, position)
            if not 0 <= size <= self._max_frame:
                raise BadStream(f"a frame of {size} bytes is outside 0 to {self._max_frame}")
            have = min(size, end - position - 4)
            fate = self._decide(view[position + 4 : position + 4 + have], size)
            if fate is Fate.PASS:
                position += 4 + have
                self._left = size - have
            elif fate is Fate.WALK:
                assert self._begin_walk is not None
                self._walk, self._left = self._begin_walk(view[position + 4 : position + 4 + have]), size - have
                position += 4 + have
                begin = self._walked(view, begin, position - have, position)
            elif fate is Fate.COLLECT and have == size:
                self._pass(view[begin:position])
                begin = position = position + 4 + size
                self._collected(data[position - size : position])
            else:
                assert have < size, "the whole frame decides"
                if size > self._max_collected and fate is Fate.COLLECT:
                    raise BadStream(f"a frame of {size} bytes has more than the {self._max_collected} that are read")
                self._wanted = 4 + size if fate is Fate.COLLECT else 0
                break
        self._pass(view[begin:position])
        self._rest += view[position:]

    def _walked(self, view: memoryview, begin: int, start: int, stop: int) -> int:
        """Take the bytes from `start` to `stop` of a frame with a walk. Those from `begin` on have not left yet.

        Return where the bytes begin that have not left then. They leave with what follows, because
        each write costs a call of the kernel.
        """
        walk, split = self._walk, start
        assert walk is not None
        assert self._end_walk is not None
        if not walk.is_done:
            split += walk.feed(view[start:stop])
            if not walk.is_done:
                if not self._left:
                    raise BadStream("a response is shorter than its fields")
                return begin
        in_pieces = bool(self._left or self._end)
        if in_pieces:
            self._pass(view[begin:split])
        if len(self._end) + stop - split > _LARGEST_END:
            raise BadStream(f"a response ends with more than {_LARGEST_END} bytes of addresses")
        self._end += view[split:stop]
        if self._left:
            return stop
        end, self._end, self._walk = bytes(self._end), bytearray(), None
        ours = self._end_walk(walk, end)
        if ours == end and not in_pieces:
            return begin
        if not in_pieces:
            self._pass(view[begin:split])
        self._passed(memoryview(ours))
        return stop

    def _pass(self, piece: memoryview) -> None:
        if piece:
            self._passed(piece)
