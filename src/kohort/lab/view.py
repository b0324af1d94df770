"""Who has which partition now, as far as the members have said."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kohort.lab.events import Assigned, Event, Gone, Joining, Lost, Read, Revoked


class View:
    """Fed with events as they are heard; partitions that two have are had by both."""

    def __init__(self) -> None:
        self._owned: dict[str, set[int]] = {}
        self._unread: dict[str, set[int]] = {}
        """Of what each has, what it has read nothing of yet."""
        self._changed_at = 0

    def hear(self, event: Event) -> None:
        """One more, in the order in which each member said it."""
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
        """What was read before does not count any more."""
        for name, owned in self._owned.items():
            self._unread[name] = set(owned)

    def owned(self, members: Collection[str]) -> dict[str, frozenset[int]]:
        """What each of these has."""
        return {name: frozenset(self._owned.get(name, ())) for name in members}

    def settled_since(self, weights: Mapping[str, float], partitions: int) -> int | None:
        """Since when (monotonic ns) these members share the partitions by their weights and read all of them.

        None if they do not. Nobody may be a whole partition away from its share.
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
