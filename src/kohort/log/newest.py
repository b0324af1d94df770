"""Offset of each key's last record in the dirty part of a log, for compaction."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from kohort.wire.batches.scanning import Pair

_LONGEST_KEY = 64
"""Maximum length of a key that is stored itself. A longer key's digest is longer than this, so they never collide."""
_ENTRY_BYTES = 160
"""Memory of a key's object, its dict entry and its offset, without the key's own bytes."""


class NewestOffsets:
    """Keys of a sequence of records, with the offset of each key's last record. `full` limits its memory."""

    __slots__ = ("_limit", "_offsets", "_sorted")

    def __init__(self, max_bytes: int) -> None:
        self._limit = max(1, max_bytes // (_ENTRY_BYTES + _LONGEST_KEY // 2))
        self._offsets: dict[bytes, int] = {}
        self._sorted: Sequence[int] | None = None

    @property
    def full(self) -> bool:
        return len(self._offsets) >= self._limit

    def add(self, pairs: Sequence[Pair], offsets: Iterable[int]) -> None:
        """Add records in log order. Records without a key are ignored: compaction removes them."""
        assert self._sorted is None
        keys = [key for key, _ in pairs]
        if None in keys or max(map(len, keys), default=0) > _LONGEST_KEY:  # type: ignore[arg-type]
            for key, offset in zip(keys, offsets, strict=True):
                if key is not None:
                    self._offsets[_short(key)] = offset
        else:
            self._offsets.update(zip(keys, offsets, strict=True))  # type: ignore[arg-type]

    def seen(self, key: bytes) -> bool:
        """Return whether a record with that key was added."""
        return _short(key) in self._offsets

    def within(self, first: int, last: int) -> Sequence[int]:
        """Return the offsets from `first` to `last` at which keys were last written. Call after all `add` calls."""
        if self._sorted is None:
            self._sorted = array("q", sorted(self._offsets.values()))
        at = bisect_left(self._sorted, first)
        return self._sorted[at : bisect_left(self._sorted, last + 1, at)]


def _short(key: bytes) -> bytes:
    return key if len(key) <= _LONGEST_KEY else b"\0" + blake2b(key).digest()
