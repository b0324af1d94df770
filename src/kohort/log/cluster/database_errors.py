"""Appends to a database whose responses may be lost.

Each append has a number. If its result is unknown, the writer asks the database for the number of
the last one. This module has no thread, clock or connection of its own: the store provides them,
and the simulation provides others than PostgreSQL's.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Generic, Protocol, TypeVar

_AGAIN_S = 0.1


class DatabaseTrouble(OSError):
    """The database rejected a request. It had no effect, unless the connection broke meanwhile."""


class ResultUnknown(DatabaseTrouble):
    """It is unknown whether the request took effect."""


class Fenced(DatabaseTrouble):
    """This broker was declared dead, or another broker leads a partition."""


class NoTimePartition(DatabaseTrouble):
    """No table exists yet for rows that expire by time; see `kohort.log.postgres.time_partitions`."""


Appends = TypeVar("Appends")
Given = TypeVar("Given", contravariant=True)


class AppendTarget(Protocol[Given]):
    """Destination of appends."""

    def append(self, appends: Given, number: int) -> None:
        """Write in one transaction, with the number; durable when this returns. Raises DatabaseTrouble."""
        ...

    def last_append(self) -> int | None:
        """Return the number of the last committed append, once no other can be committed any more.

        Returns None if this broker was declared dead. Raises ConnectionBroke.
        """
        ...

    def make_time_partitions(self, appends: Given) -> None:
        """Create the missing tables after `append` raised NoDrawer. Raises DatabaseTrouble."""
        ...


class Writer(Generic[Appends]):
    """Appends of one broker, one after the other."""

    def __init__(self, table: AppendTarget[Appends]) -> None:
        self._table = table
        self._appends = 0
        self.give_up: Callable[[], bool] = lambda: False
        """Returns whether to stop retrying; the next broker then finds out what was written."""

    def write(self, appends: Appends) -> Iterator[float]:
        """Write all appends or none; they are durable when this ends. Yields times to sleep, in seconds.

        Raises DatabaseTrouble; nothing was written then, unless `give_up` returned True.
        """
        number = self._appends + 1
        while True:
            try:
                self._table.append(appends, number)
                break
            except NoTimePartition:
                self._table.make_time_partitions(appends)
            except ResultUnknown:
                if (yield from self._find_out()) == number:
                    break
        self._appends = number

    def _find_out(self) -> Generator[float, None, int | None]:
        """Return the number of the last committed append.

        If this broker was declared dead, the next attempt raises Fenced.
        """
        while True:
            try:
                return self._table.last_append()
            except ResultUnknown:
                if self.give_up():
                    raise
                yield _AGAIN_S
