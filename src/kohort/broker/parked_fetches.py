"""Fetches that wait for records: found by the log that they wait for, woken when it has something new."""

import asyncio
from collections.abc import Callable, Iterable

from kohort.log.api import PartitionLog


class ParkedFetches:
    """All of a broker's. `woken` looks again at those that wait for a log, after a commit settled it."""

    def __init__(self) -> None:
        self._by_log: dict[PartitionLog, set[ParkedFetch]] = {}
        self._seen: dict[PartitionLog, int] = {}
        """The stable offset of each log that somebody waits for, as of the last look."""

    @property
    def count(self) -> int:
        """How many fetches wait."""
        return len({fetch for waiting in self._by_log.values() for fetch in waiting})

    def add(self, fetch: "ParkedFetch") -> None:
        """Wake it when one of its logs moves."""
        for log in fetch.logs:
            self._by_log.setdefault(log, set()).add(fetch)
            self._seen[log] = log.stable_offset

    def remove(self, fetch: "ParkedFetch") -> None:
        """It is answered or its peer is gone."""
        for log in fetch.logs:
            waiting = self._by_log.get(log)
            if waiting is not None:
                waiting.discard(fetch)
                if not waiting:
                    del self._by_log[log], self._seen[log]

    def look(self) -> None:
        """Wake the fetches of every log that moved since the last look."""
        moved = [log for log, seen in self._seen.items() if log.stable_offset != seen]
        woken = {fetch for log in moved for fetch in self._by_log[log]}
        for log in moved:
            self._seen[log] = log.stable_offset
        for fetch in woken:
            fetch.wake()

    def look_at_all(self) -> None:
        """A topic is gone: answer those that asked for it; the others wait on."""
        for fetch in {fetch for waiting in self._by_log.values() for fetch in waiting}:
            fetch.wake()

    def expire_all(self) -> None:
        """The broker stops: answer everybody with what there is."""
        for fetch in {fetch for waiting in self._by_log.values() for fetch in waiting}:
            fetch.expire()


class ParkedFetch:
    """One fetch that found too little. `look_again(last)` answers it if it can, or must because it is the last look."""

    def __init__(self, parked: ParkedFetches, logs: Iterable[PartitionLog], look_again: Callable[[bool], bool]) -> None:
        self.logs = frozenset(logs)
        self._parked = parked
        self._look_again = look_again
        self._timer: asyncio.TimerHandle | None = None
        parked.add(self)

    def expire_after(self, seconds: float) -> None:
        """Answer with what there is by then."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self.expire)

    def wake(self) -> None:
        """There is something new."""
        if self._look_again(False):
            self.cancel()

    def expire(self) -> None:
        """Time is up."""
        self.cancel()
        self._look_again(True)

    def cancel(self) -> None:
        """Forget it."""
        self._parked.remove(self)
        if self._timer is not None:
            self._timer.cancel()
