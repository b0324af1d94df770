"""Which partition a record goes to: by its key as Java's producer has it, else one for a while and then another."""

import random
from collections.abc import Sequence
from struct import Struct

_INT32_LE = Struct("<I")
_CACHED_KEYS = 1 << 16


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit hash of a key, made positive; every client of the same key must agree on it."""
    length = len(data)
    h = 0x9747B28C ^ length
    whole = length & ~3
    for (k,) in _INT32_LE.iter_unpack(data[:whole]):
        k = k * 0x5BD1E995 & 0xFFFFFFFF
        k ^= k >> 24
        h = (h * 0x5BD1E995 ^ k * 0x5BD1E995) & 0xFFFFFFFF
    rest = length - whole
    if rest:
        h ^= int.from_bytes(data[whole:], "little")
        h = h * 0x5BD1E995 & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0x5BD1E995 & 0xFFFFFFFF
    h ^= h >> 15
    return h & 0x7FFFFFFF


class Partitioner:
    """For one topic of a producer."""

    __slots__ = ("_by_key", "_led", "_sticky", "_sticky_left", "_stretch", "count")

    def __init__(self, count: int, batch_size: int) -> None:
        assert count > 0
        self.count = count
        self._by_key: dict[bytes, int] = {}
        self._led: Sequence[int] = ()
        self._stretch = batch_size
        self._sticky = self._sticky_left = 0

    def resize(self, count: int) -> None:
        """The topic has that many partitions now: from here on keys map anew."""
        self.count = count
        self._by_key.clear()
        self._sticky_left = 0

    def led(self, partitions: Sequence[int]) -> None:
        """Only these have a leader now: records without a key go there, or anywhere if there are none."""
        self._led = partitions
        if self._sticky not in partitions:
            self._sticky_left = 0

    def by_key(self, key: bytes) -> int:
        """The partition of a key."""
        partition = self._by_key.get(key)
        if partition is None:
            if len(self._by_key) >= _CACHED_KEYS:
                self._by_key.clear()
            partition = self._by_key[key] = murmur2(key) % self.count
        return partition

    def without_key(self, size: int) -> int:
        """KIP-794: stay with one partition for about a batch, so that batches fill whatever the rate."""
        if self._sticky_left <= 0:
            self._sticky = random.choice(self._led or range(self.count))
            self._sticky_left = self._stretch
        self._sticky_left -= size
        return self._sticky
