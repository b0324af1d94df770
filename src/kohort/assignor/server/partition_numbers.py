"""Sets of partition numbers that are kept for long, in little memory."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Set
from typing import TypeVar

T = TypeVar("T")

_SMALL = 4
"""Maximum size of a frozenset without a table of its own: compressing it would save nothing worth the time."""


class PartitionNumbers(Set[int]):
    """An immutable set of partition numbers: ten take 168 bytes, as a frozenset with its integers 1,039.

    Its operators are those of `frozenset`, and return one. A computation converts each operand, so
    create such a set only from a result that is kept; see `kept`.
    """

    __slots__ = ("_sorted",)

    def __init__(self, numbers: Iterable[int]) -> None:
        """Create a set of distinct numbers."""
        self._sorted = array("i", sorted(numbers))

    def __iter__(self) -> Iterator[int]:
        """Iterate in ascending order."""
        return iter(self._sorted)

    def __len__(self) -> int:
        return len(self._sorted)

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        at = bisect_left(self._sorted, number)
        return at < len(self._sorted) and self._sorted[at] == number

    def __eq__(self, other: object) -> bool:
        if type(other) is PartitionNumbers:
            return self._sorted == other._sorted
        return isinstance(other, Set) and frozenset(self._sorted) == other

    def __hash__(self) -> int:
        return hash(frozenset(self._sorted))  # that of an equal frozenset

    def __repr__(self) -> str:
        return f"PartitionNumbers({self._sorted.tolist()})"

    def __and__(self, other: Set[object]) -> frozenset[int]:
        return frozenset(self._sorted).intersection(other)

    def __or__(self, other: Set[T]) -> frozenset[int | T]:
        return frozenset(self._sorted).union(other)

    def __sub__(self, other: Set[object]) -> frozenset[int]:
        return frozenset(self._sorted).difference(other)

    def __rsub__(self, other: Set[T]) -> frozenset[T]:
        return frozenset(other).difference(self._sorted)

    __rand__, __ror__ = __and__, __or__

    def __le__(self, other: Set[object]) -> bool:
        return frozenset(self._sorted).issubset(other)

    def __ge__(self, other: Set[object]) -> bool:
        return frozenset(self._sorted).issuperset(other)

    def isdisjoint(self, other: Iterable[object]) -> bool:
        """Return whether the sets have no number in common."""
        return frozenset(self._sorted).isdisjoint(other)


def kept(numbers: Set[int]) -> Set[int]:
    """Return an equal, immutable set that takes little memory."""
    if len(numbers) <= _SMALL:
        return frozenset(numbers)
    return numbers if type(numbers) is PartitionNumbers else PartitionNumbers(numbers)
