"""Check of last stable offsets: they never go back or pass an open transaction (S26), nor stand still (L9)."""

from __future__ import annotations

from kohort.sim.checks.transactions.logs import TransactionalLogs
from kohort.sim.environment import PartitionId
from kohort.sim.violation import Violation


class StableOffsets:
    """Last stable offsets, as brokers have them."""

    def __init__(self, logs: TransactionalLogs, stands_for: float) -> None:
        """Create the check. L9 is violated if a transaction is open for `stands_for` seconds on a healthy broker."""
        self._logs = logs
        self._stands_for = stands_for
        self._highest: dict[PartitionId, int] = {}
        self._since: dict[PartitionId, tuple[int, float]] = {}
        """First offset of the oldest open transaction, and the time since which a healthy broker has had it."""

    def found(self, place: PartitionId, offset: int) -> None:
        """Check the last stable offset that a broker has."""
        log = self._logs.logs.get(place)
        if log is None:
            return
        name = self._logs.names[place]
        if offset > log.last_stable_offset:
            raise Violation("S26", f"the last stable offset of {name} is {offset}, not {log.last_stable_offset}")
        if offset < self._highest.get(place, 0):
            raise Violation("S26", f"the last stable offset of {name} goes back to {offset}")
        self._highest[place] = offset

    def look(self, now: float, *, is_healthy: bool) -> None:
        """Check that no transaction is open for too long. The time counts anew after a broker was not healthy."""
        if not is_healthy:
            self._since.clear()
            return
        for place, log in self._logs.logs.items():
            if not log.open:
                self._since.pop(place, None)
                continue
            first = log.last_stable_offset
            before, since = self._since.setdefault(place, (first, now))
            if before != first:
                self._since[place] = first, now
            elif now - since > self._stands_for:
                name = self._logs.names[place]
                raise Violation("L9", f"the last stable offset of {name} is {first} for {now - since:.0f} s")

    def open(self) -> str:
        """Return a description of an open transaction, or ""."""
        for place, log in self._logs.logs.items():
            if log.open:
                return f"a transaction in {self._logs.names[place]} is open at {log.last_stable_offset}"
        return ""
