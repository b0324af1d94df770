"""Errors that must be raised to the application before their partitions are requested again."""

from collections.abc import Callable, Iterable

from kohort.client.consume.partition import PartitionState
from kohort.errors import KohortError


class PendingErrors:
    """Pending errors of partitions.

    A seek, or removal of the partition, discards its error, because `turn` changes.
    """

    def __init__(self) -> None:
        self._errors: dict[PartitionState, tuple[int, KohortError]] = {}

    def add(self, states: Iterable[PartitionState], error: KohortError) -> None:
        """Add an error to be raised once for all of these partitions."""
        self._errors.update((state, (state.turn, error)) for state in states)

    def holds(self, state: PartitionState) -> bool:
        """Return whether the partition's error must be raised first."""
        if not self._errors or state not in self._errors:
            return False
        if self._errors[state][0] != state.turn:
            del self._errors[state]
            return False
        return True

    def take(self, ready: Callable[[PartitionState], bool]) -> tuple[list[PartitionState], KohortError | None]:
        """Remove and return one error of a partition that is ready, with all partitions that share it."""
        for state in list(self._errors):
            if self.holds(state) and ready(state):
                error = self._errors[state][1]
                states = [other for other, (_, error_of_other) in self._errors.items() if error_of_other is error]
                for other in states:
                    del self._errors[other]
                return states, error
        return [], None
