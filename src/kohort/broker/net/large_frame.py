"""A frame that is larger than one read, received directly into its own buffer."""

from kohort.wire.codec import Buffer

FIRST_ROOM = 1 << 17
"""Initial size of a frame's buffer, in bytes; it doubles as the frame arrives."""
_MOST_ROOM = 1 << 21


class LargeFrame:
    """A frame that is being received."""

    def __init__(self, size: int, start: Buffer, room: int) -> None:
        """Begin with `start`, the first bytes of `size`. `room` is the initial size of the buffer."""
        # A bytearray's zeros are written and use memory at once, so a size that is only claimed must not be allocated.
        self.data = bytearray(min(size, room))
        self._size = size
        self._filled = len(start)
        self.data[: self._filled] = start

    @property
    def rest(self) -> memoryview:
        """The free part of the buffer, for the next bytes; a full buffer grows first."""
        if self._filled == len(self.data):
            self.data.extend(bytes(min(self._filled, self._size - self._filled)))
        return memoryview(self.data)[self._filled :]

    def fill(self, nbytes: int) -> bool:
        """Record that `nbytes` were received; return whether the frame is complete, in `data`."""
        self._filled += nbytes
        return self._filled == self._size

    @property
    def next_buffer(self) -> int:
        """Initial buffer size for this peer's next large frame: as much as it has sent before, within limits."""
        return min(self._size, _MOST_ROOM)
