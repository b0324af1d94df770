"""A frame that is larger than a read: it is received straight into its own buffer."""

from kohort.wire.codec import Buffer

FIRST_ROOM = 1 << 17
"""Of its buffer, in bytes, which doubles as the frame arrives."""
_MOST_ROOM = 1 << 21


class LargeFrame:
    """On its way in."""

    def __init__(self, size: int, start: Buffer, room: int) -> None:
        """Of so many bytes, of which `start` is here. `room` is what it gets at once."""
        # A bytearray's zeros are written, so it is resident at once: a size that is only claimed must not make one.
        self.data = bytearray(min(size, room))
        self._size = size
        self._filled = len(start)
        self.data[: self._filled] = start

    @property
    def rest(self) -> memoryview:
        """Where the next bytes belong."""
        if self._filled == len(self.data):
            self.data.extend(bytes(min(self._filled, self._size - self._filled)))
        return memoryview(self.data)[self._filled :]

    def fill(self, nbytes: int) -> bool:
        """So many bytes came; whether it is whole, in `data`."""
        self._filled += nbytes
        return self._filled == self._size

    @property
    def next_room(self) -> int:
        """What another one gets from the same peer, who has sent as much before."""
        return min(self._size, _MOST_ROOM)
