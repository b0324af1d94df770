"""Commits to a database whose answers may be lost: each is numbered, and who does not know looks which was the last.

No thread, no clock, no connection of its own: a store gives it both, the simulation's others than PostgreSQL's.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Generic, Protocol, TypeVar

_AGAIN_S = 0.1


class DatabaseTrouble(OSError):
    """The database did not do what was asked: nothing of it happened, unless the connection broke meanwhile."""


class ConnectionBroke(DatabaseTrouble):
    """Nobody knows whether it happened."""


class Fenced(DatabaseTrouble):
    """This broker was declared dead, or a partition is another's."""


class NoDrawer(DatabaseTrouble):
    """There is no table yet for rows that go by time; see `kohort.log.postgres.drawers`."""


Appends = TypeVar("Appends")
Given = TypeVar("Given", contravariant=True)


class Table(Protocol[Given]):
    """Where appends go."""

    def append(self, appends: Given, number: int) -> None:
        """In one transaction, with the number: durable when it returns. Raises DatabaseTrouble."""
        ...

    def last_append(self) -> int | None:
        """The number of the last one that is in, when no other can come in any more; None where this broker was
        declared dead. Raises ConnectionBroke.
        """
        ...

    def make_drawers(self, appends: Given) -> None:
        """After `append` raised NoDrawer. Raises DatabaseTrouble."""
        ...


class Writer(Generic[Appends]):
    """Appends of one broker, one after the other."""

    def __init__(self, table: Table[Appends]) -> None:
        self._table = table
        self._appends = 0
        self.give_up: Callable[[], bool] = lambda: False
        """Whether to try no more: what was written then is for the next broker to find out."""

    def write(self, appends: Appends) -> Iterator[float]:
        """Durable when it ends, all or nothing; rest for so many seconds where it says so. Raises DatabaseTrouble: then
        nothing of it is in, but for what `give_up` says.
        """
        number = self._appends + 1
        while True:
            try:
                self._table.append(appends, number)
                break
            except NoDrawer:
                self._table.make_drawers(appends)
            except ConnectionBroke:
                if (yield from self._find_out()) == number:
                    break
        self._appends = number

    def _find_out(self) -> Generator[float, None, int | None]:
        """The number of the last append that is in. Where this broker is none any more, the next attempt says so."""
        while True:
            try:
                return self._table.last_append()
            except ConnectionBroke:
                if self.give_up():
                    raise
                yield _AGAIN_S
