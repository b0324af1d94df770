"""View of the present owners of partitions, according to the members' events."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kohort.lab.events import Assigned, Event, Gone, Joining, Lost, Read, Revoked


class View:
    """Owners of partitions, updated by events as they arrive. A partition may have two owners."""

    def __init__(self) -> None:
        self._owned: dict[str, set[int]] = {}
        self._unread: dict[str, set[int]] = {}
        """Partitions of each member from which it has read nothing yet."""
        self._changed_at = 0

    def handle(self, event: Event) -> None:
        """Handle an event. Events of one member must be in order."""
        owned = self._owned.setdefault(event.member, set())
        unread = self._unread.setdefault(event.member, set())
        match event:
            case Joining():
                self._changed_at = max(self._changed_at, event.at)
            case Assigned():
                owned.update(event.partitions)
                unread.update(event.partitions)
                if event.partitions:
                    self._changed_at = max(self._changed_at, event.at)
            case Revoked() | Lost():
                owned.difference_update(event.partitions)
                unread.difference_update(event.partitions)
                if event.partitions:
                    self._changed_at = max(self._changed_at, event.at)
            case Read() if unread:
                read = {partition for partition, _, _ in event.runs}
                if unread & read:
                    unread -= read
                    self._changed_at = max(self._changed_at, event.at)
            case Gone():
                owned.clear()
                unread.clear()

    def unread_all(self) -> None:
        """Mark all owned partitions as unread."""
        for name, owned in self._owned.items():
            self._unread[name] = set(owned)

    def owned(self, members: Collection[str]) -> dict[str, frozenset[int]]:
        """Return the partitions of each of these members."""
        return {name: frozenset(self._owned.get(name, ())) for name in members}

    def settled_since(self, weights: Mapping[str, float], partitions: int) -> int | None:
        """Return the time since which these members share the partitions by their weights and read all of them.

        The time is in monotonic nanoseconds, None if they do not. Each member's number of
        partitions must differ from its share by less than one.
        """
        owned = [self._owned.get(name, set()) for name in weights]
        if sum(map(len, owned)) != partitions or len(set().union(*owned)) != partitions:
            return None
        if any(self._unread.get(name) for name in weights):
            return None
        each = partitions / (sum(weights.values()) or 1.0)
        if any(abs(len(has) - each * weight) >= 1 for has, weight in zip(owned, weights.values(), strict=True)):
            return None
        return self._changed_at
