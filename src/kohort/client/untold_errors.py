"""Errors that the application has to be told before the partitions concerned are asked for again."""

from collections.abc import Callable, Iterable

from kohort.client.partition import PartitionState
from kohort.errors import KohortError


class UntoldErrors:
    """A seek ends the error of a partition, and so does giving the partition up: `turn` changes then."""

    def __init__(self) -> None:
        self._errors: dict[PartitionState, tuple[int, KohortError]] = {}

    def add(self, states: Iterable[PartitionState], error: KohortError) -> None:
        """Have it raised once, for all of these."""
        self._errors.update((state, (state.turn, error)) for state in states)

    def holds(self, state: PartitionState) -> bool:
        """Whether its error has to be raised first."""
        if not self._errors or state not in self._errors:
            return False
        if self._errors[state][0] != state.turn:
            del self._errors[state]
            return False
        return True

    def take(self, ready: Callable[[PartitionState], bool]) -> tuple[list[PartitionState], KohortError | None]:
        """One error of a partition that is ready for it, with all its partitions, which it holds no longer."""
        for state in list(self._errors):
            if self.holds(state) and ready(state):
                error = self._errors[state][1]
                told = [one for one, (_, its) in self._errors.items() if its is error]
                for one in told:
                    del self._errors[one]
                return told, error
        return [], None
