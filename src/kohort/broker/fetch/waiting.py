"""Fetches that wait for records: registered by the logs that they wait for, and woken when one of these changes.

They can also be found by client. A client that has just learned of other partitions cannot fetch them before its last
fetch is answered. The application of a Java member that must revoke partitions sleeps until a fetch is answered. In
these two cases a fetch is answered soon, even if empty, instead of after fetch.max.wait.ms (500).
"""

import asyncio
from collections.abc import Callable, Iterable

from kohort.log import PartitionLog
from kohort.log.cluster import FollowerLog

ReadLog = PartitionLog | FollowerLog
"""A log that a fetch reads: of a partition that this broker leads, or of one that it follows."""

Client = tuple[str, str]
"""Host and client ID of a connection. Nothing else identifies the connections of one client."""

_SOON_S = 0.005
"""Time that a client takes to read an earlier answer on another connection, in seconds."""
_STEPS_S = (0.005, 0.01, 0.02, 0.04, 0.08)
"""Delays after which a member may check for its next callback, in seconds.

The callbacks are for revoked and for assigned partitions; how long each takes is unknown.
"""
_MOST_AT_ONCE = 8
"""Maximum number of fetches that end at once: all clients on one host may have the same ID."""


class WaitingFetches:
    """All waiting fetches of a broker, by the logs that they watch; ordered, so that simulations are repeatable."""

    def __init__(self, *, ends_early: bool) -> None:
        """Unless `ends_early` is set, each fetch waits until it is complete or its time is up, as in Kafka."""
        self._ends_early = ends_early
        self._watches: dict[ReadLog, dict[LogWatch, None]] = {}
        self._open: dict[LogWatch, None] = {}
        self._of_client: dict[Client, dict[WaitingFetch, None]] = {}

    @property
    def count(self) -> int:
        """Number of fetches that wait."""
        return sum(watch.fetch is not None for watch in self._open)

    def watches(self, log: ReadLog) -> bool:
        """Return whether a waiting fetch or a fetch session watches the log."""
        return log in self._watches

    def moved(self, logs: Iterable[ReadLog]) -> None:
        """Wake the fetches that wait for these logs, which have more to read, or less."""
        woken: dict[LogWatch, None] = {}
        for log in logs:
            for watch in self._watches.get(log, ()):
                watch.on_move(log)
                woken[watch] = None
        for watch in woken:
            if watch.fetch is not None:
                watch.fetch.wake()

    def check_all(self) -> None:
        """Wake all fetches after topics or their logs changed: those for a deleted topic are answered."""
        for watch in list(self._open):
            for log in list(watch.logs):
                watch.on_move(log)
            if watch.fetch is not None:
                watch.fetch.wake()

    def expire_all(self) -> None:
        """Answer all fetches with what is available, because the broker stops."""
        for watch in list(self._open):
            if watch.fetch is not None:
                watch.fetch.expire()

    def end_soon(self, client: Client) -> None:
        """Answer the client's waiting fetches shortly, with what is available then."""
        if self._ends_early:
            asyncio.get_running_loop().call_later(_SOON_S, self._end, client)

    def keep_awake(self, client: Client) -> None:
        """Answer the client's waiting fetches several times within the next tenth of a second."""
        if self._ends_early:
            for moment in _STEPS_S:
                asyncio.get_running_loop().call_later(moment, self._end, client)

    def _end(self, client: Client) -> None:
        for fetch in list(self._of_client.get(client, ()))[:_MOST_AT_ONCE]:
            fetch.expire()

    def _parked(self, fetch: "WaitingFetch") -> None:
        self._of_client.setdefault(fetch.client, {})[fetch] = None

    def _ended(self, fetch: "WaitingFetch") -> None:
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
    """The logs that one fetch watches, or those of a session, whose `on_move` is called for each log that moved."""

    def __init__(self, parked: WaitingFetches, on_move: Callable[[ReadLog], None] | None = None) -> None:
        self.logs: dict[ReadLog, None] = {}
        self.on_move = on_move or (lambda log: None)
        self.lasts = on_move is not None
        """Whether it stays open after its fetch is answered."""
        self.fetch: WaitingFetch | None = None
        """The fetch that waits, if any."""
        self.parked = parked
        """The registry of all waiting fetches."""

    def add(self, log: ReadLog) -> None:
        """Watch this log."""
        if log not in self.logs:
            self.logs[log] = None
            self.parked._add(log, self)

    def discard(self, log: ReadLog) -> None:
        """Stop watching this log."""
        if log in self.logs:
            del self.logs[log]
            self.parked._discard(log, self)

    def close(self) -> None:
        """Stop watching all logs; a fetch that waits here is answered with what is available."""
        if self.fetch is not None:
            self.fetch.expire()
        for log in list(self.logs):
            self.discard(log)


class WaitingFetch:
    """One fetch that found too few records.

    `look_again(last)` reads again and returns whether it answered the fetch; if `last` is true, it must.
    """

    def __init__(self, watch: LogWatch, look_again: Callable[[bool], bool], client: Client, *, wait_s: float) -> None:
        """Wait for `wait_s` seconds, then answer with what is available. `watch` has at least one log."""
        if watch.fetch is not None:  # the client sent another fetch before it got this one's answer
            watch.fetch.expire()
        watch.fetch = self
        self._watch = watch
        self._check_again = look_again
        self.client = client
        self._timer = asyncio.get_running_loop().call_later(wait_s, self.expire)
        watch.parked._parked(self)

    def wake(self) -> None:
        """Read again, because a log changed."""
        if self._check_again(False):
            self.cancel()

    def expire(self) -> None:
        """Answer the fetch, because its time is up."""
        self.cancel()
        self._check_again(True)

    def cancel(self) -> None:
        """Remove the fetch from the registry without an answer."""
        self._timer.cancel()
        self._watch.parked._ended(self)
        if self._watch.fetch is self:
            self._watch.fetch = None
            if not self._watch.lasts:
                self._watch.close()
