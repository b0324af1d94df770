"""Fetches that wait for records: found by the log that they wait for, woken when it has something new.

And by the client: one that has just learned what else to read cannot ask for it before its last fetch is answered, and
the application of a Java member that is told to give something up sleeps until a fetch is. So in these two cases a
fetch is answered soon, be it with nothing, instead of after fetch.max.wait.ms (500).
"""

import asyncio
from collections.abc import Callable, Iterable

from kohort.log.api import PartitionLog
from kohort.log.cluster.followed import FollowedLog

ReadLog = PartitionLog | FollowedLog
"""What a fetch reads: a partition that this broker leads, or one that it follows."""

Client = tuple[str, str]
"""The host and the client id of a connection: more is not known of which connections are one client's."""

_SOON_S = 0.005
"""So long a client takes to read the answer that comes before, on another connection."""
_STEPS_S = (0.005, 0.01, 0.02, 0.04, 0.08)
"""When a member looks for its next callback: what it gives up, what it takes. Nothing says how long each lasts."""
_MOST_AT_ONCE = 8
"""Clients on one host may all have the same id."""


class ParkedFetches:
    """All of a broker's, by what they watch. Everything here keeps its order, so that a simulated broker does."""

    def __init__(self, *, ends_early: bool) -> None:
        """Unless it `ends_early`, each fetch waits until it is answered in full or its time is up, as in Kafka."""
        self._ends_early = ends_early
        self._watches: dict[ReadLog, dict[LogWatch, None]] = {}
        self._open: dict[LogWatch, None] = {}
        self._of_client: dict[Client, dict[ParkedFetch, None]] = {}

    @property
    def count(self) -> int:
        """How many fetches wait."""
        return sum(watch.fetch is not None for watch in self._open)

    def watches(self, log: ReadLog) -> bool:
        """Whether a fetch waits for it, or a fetch session has it."""
        return log in self._watches

    def moved(self, logs: Iterable[ReadLog]) -> None:
        """There is more to read in these logs, or less: wake the fetches that wait for them."""
        woken: dict[LogWatch, None] = {}
        for log in logs:
            for watch in self._watches.get(log, ()):
                watch.on_move(log)
                woken[watch] = None
        for watch in woken:
            if watch.fetch is not None:
                watch.fetch.wake()

    def look_at_all(self) -> None:
        """Topics or their logs are not what they were: whoever asked for one that is gone is answered."""
        for watch in list(self._open):
            for log in list(watch.logs):
                watch.on_move(log)
            if watch.fetch is not None:
                watch.fetch.wake()

    def expire_all(self) -> None:
        """The broker stops: answer everybody with what there is."""
        for watch in list(self._open):
            if watch.fetch is not None:
                watch.fetch.expire()

    def end_soon(self, client: Client) -> None:
        """Answer what the client waits for, in a moment, with what there is by then."""
        if self._ends_early:
            asyncio.get_running_loop().call_later(_SOON_S, self._end, client)

    def keep_awake(self, client: Client) -> None:
        """The same several times in the next tenth of a second."""
        if self._ends_early:
            for moment in _STEPS_S:
                asyncio.get_running_loop().call_later(moment, self._end, client)

    def _end(self, client: Client) -> None:
        for fetch in list(self._of_client.get(client, ()))[:_MOST_AT_ONCE]:
            fetch.expire()

    def _parked(self, fetch: "ParkedFetch") -> None:
        self._of_client.setdefault(fetch.client, {})[fetch] = None

    def _ended(self, fetch: "ParkedFetch") -> None:
        of_client = self._of_client.get(fetch.client)
        if of_client is not None:
            of_client.pop(fetch, None)
            if not of_client:
                del self._of_client[fetch.client]

    def _add(self, log: ReadLog, watch: "LogWatch") -> None:
        self._open[watch] = None
        self._watches.setdefault(log, {})[watch] = None

    def _discard(self, log: ReadLog, watch: "LogWatch") -> None:
        watching = self._watches[log]
        del watching[watch]
        if not watching:
            del self._watches[log]
        if not watch.logs:
            del self._open[watch]


class LogWatch:
    """The logs of one fetch or, where `on_move` wants to be told of each that moved, of many that follow each other."""

    def __init__(self, parked: ParkedFetches, on_move: Callable[[ReadLog], None] | None = None) -> None:
        self.logs: dict[ReadLog, None] = {}
        self.on_move = on_move or (lambda log: None)
        self.lasts = on_move is not None
        """Whether it goes on when its fetch is answered."""
        self.fetch: ParkedFetch | None = None
        """What waits here."""
        self.parked = parked
        """Where it is one of many."""

    def add(self, log: ReadLog) -> None:
        """Watch this one, too."""
        if log not in self.logs:
            self.logs[log] = None
            self.parked._add(log, self)

    def discard(self, log: ReadLog) -> None:
        """Watch it no longer."""
        if log in self.logs:
            del self.logs[log]
            self.parked._discard(log, self)

    def close(self) -> None:
        """Watch nothing any more; a fetch that waits here gets what there is."""
        if self.fetch is not None:
            self.fetch.expire()
        for log in list(self.logs):
            self.discard(log)


class ParkedFetch:
    """One fetch that found too little. `look_again(last)` answers it if it can, or must because it is the last look."""

    def __init__(self, watch: LogWatch, look_again: Callable[[bool], bool], client: Client, *, wait_s: float) -> None:
        """It is answered after `wait_s` with what there is by then. `watch` has at least one log."""
        if watch.fetch is not None:  # of a peer that did not wait for its answer
            watch.fetch.expire()
        watch.fetch = self
        self._watch = watch
        self._look_again = look_again
        self.client = client
        self._timer = asyncio.get_running_loop().call_later(wait_s, self.expire)
        watch.parked._parked(self)

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
        self._timer.cancel()
        self._watch.parked._ended(self)
        if self._watch.fetch is self:
            self._watch.fetch = None
            if not self._watch.lasts:
                self._watch.close()
