"""Choice of a record's partition: by key as in Java's producer, otherwise sticky for a while."""

import random
from collections.abc import Sequence
from struct import Struct

_INT32_LE = Struct("<I")
_CACHED_KEYS = 1 << 16


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2 hash of a key, made non-negative.

    All clients must compute the same value for a key.
    """
    length = len(data)
    h = 0x9747B28C ^ length
    whole_number = length & ~3
    for (k,) in _INT32_LE.iter_unpack(data[:whole_number]):
        k = k * 0x5BD1E995 & 0xFFFFFFFF
        k ^= k >> 24
        h = (h * 0x5BD1E995 ^ k * 0x5BD1E995) & 0xFFFFFFFF
    rest = length - whole_number
    if rest:
        h ^= int.from_bytes(data[whole_number:], "little")
        h = h * 0x5BD1E995 & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0x5BD1E995 & 0xFFFFFFFF
    h ^= h >> 15
    return h & 0x7FFFFFFF


class Partitioner:
    """Partitioner of one topic of a producer."""

    __slots__ = ("_by_key", "_led", "_sticky", "_sticky_left", "_stretch", "count")

    def __init__(self, count: int, batch_size: int) -> None:
        assert count > 0
        self.count = count
        self._by_key: dict[bytes, int] = {}
        self._led: Sequence[int] = ()
        self._stretch = batch_size
        self._sticky = self._sticky_left = 0

    def resize(self, count: int) -> None:
        """Set the topic's partition count. Keys map anew from here on."""
        self.count = count
        self._by_key.clear()
        self._sticky_left = 0

    def led(self, partitions: Sequence[int]) -> None:
        """Set the partitions that have a leader.

        Records without a key use only these, or any if there are none.
        """
        self._led = partitions
        if self._sticky not in partitions:
            self._sticky_left = 0

    def by_key(self, key: bytes) -> int:
        """Return the partition of a key."""
        partition = self._by_key.get(key)
        if partition is None:
            if len(self._by_key) >= _CACHED_KEYS:
                self._by_key.clear()
            partition = self._by_key[key] = murmur2(key) % self.count
        return partition

    def without_key(self, size: int) -> int:
        """Return the partition of a record without a key.

        It changes after about one batch, so that batches fill at any rate (KIP-794).
        """
        if self._sticky_left <= 0:
            self._sticky = random.choice(self._led or range(self.count))
            self._sticky_left = self._stretch
        self._sticky_left -= size
        return self._sticky
