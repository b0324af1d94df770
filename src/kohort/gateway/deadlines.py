"""Things that are to be looked at, each at its time. Pure: the caller supplies the time.

Times are rounded up to whole seconds, so that to set one and to find those that are due costs the same for any number
of things.
"""

from collections.abc import Hashable
from math import ceil, floor
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Deadlines(Generic[T]):
    """Things and their times."""

    def __init__(self, now: float) -> None:
        self._passed = floor(now)
        """Last second that `due` has covered."""
        self._second_of: dict[T, int] = {}
        self._things: dict[int, dict[T, None]] = {}
        """Things by second."""

    def __len__(self) -> int:
        return len(self._second_of)

    def set(self, thing: T, at: float) -> None:
        """Look at a thing at this time, in seconds, instead of at an earlier set one."""
        self.remove(thing)
        second = max(ceil(at), self._passed + 1)
        self._second_of[thing] = second
        self._things.setdefault(second, {})[thing] = None

    def remove(self, thing: T) -> None:
        """Do not look at a thing any more."""
        second = self._second_of.pop(thing, None)
        if second is not None:
            things = self._things[second]
            del things[thing]
            if not things:
                del self._things[second]

    def due(self, now: float) -> list[T]:
        """Return the things whose time has come, and remove them."""
        found: list[T] = []
        until = floor(now)
        for second in range(self._passed + 1, until + 1):
            found += self._things.pop(second, {})
        for thing in found:
            del self._second_of[thing]
        self._passed = max(self._passed, until)
        return found
