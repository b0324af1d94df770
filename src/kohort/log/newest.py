"""Which offset each key was last written at: what compaction needs to know of the part that it has not seen before."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from kohort.wire.record_pairs import Pair

_LONGEST_KEY = 64
"""Longer ones are kept as digests, which are longer than this, so that none can be mistaken for a key."""
_ENTRY_BYTES = 160
"""A key's object, its place in the dict and its offset, beside its own bytes."""


class NewestOffsets:
    """Keys of a run of records with the offset of each one's last record. `full` bounds its memory."""

    __slots__ = ("_limit", "_offsets", "_sorted")

    def __init__(self, max_bytes: int) -> None:
        self._limit = max(1, max_bytes // (_ENTRY_BYTES + _LONGEST_KEY // 2))
        self._offsets: dict[bytes, int] = {}
        self._sorted: Sequence[int] | None = None

    @property
    def full(self) -> bool:
        return len(self._offsets) >= self._limit

    def add(self, pairs: Sequence[Pair], offsets: Iterable[int]) -> None:
        """Take in records in the order of the log. One without a key has no place in a table and is not kept."""
        assert self._sorted is None
        keys = [key for key, _ in pairs]
        if None in keys or max(map(len, keys), default=0) > _LONGEST_KEY:  # type: ignore[arg-type]
            for key, offset in zip(keys, offsets, strict=True):
                if key is not None:
                    self._offsets[_short(key)] = offset
        else:
            self._offsets.update(zip(keys, offsets, strict=True))  # type: ignore[arg-type]

    def seen(self, key: bytes) -> bool:
        """Whether there is a record of that key."""
        return _short(key) in self._offsets

    def within(self, first: int, last: int) -> Sequence[int]:
        """The offsets from `first` to `last` at which a key was last written; after the first call nothing is added."""
        if self._sorted is None:
            self._sorted = array("q", sorted(self._offsets.values()))
        at = bisect_left(self._sorted, first)
        return self._sorted[at : bisect_left(self._sorted, last + 1, at)]


def _short(key: bytes) -> bytes:
    return key if len(key) <= _LONGEST_KEY else b"\0" + blake2b(key).digest()
