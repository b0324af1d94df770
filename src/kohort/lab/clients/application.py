"""Stateful application of the experiments, which counts records per key in a store per partition.

A new partition's store is restored, and a revoked partition's store is flushed. Both take time,
which makes a rebalance expensive. A client's program calls the application from its callbacks and
after each poll, and passes it a function that commits.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from kohort.lab.clients.store import Store
from kohort.lab.events import (
    Assigned,
    Committed,
    Event,
    Joining,
    Lost,
    Read,
    Ready,
    Restored,
    Revoked,
    Serving,
    line,
    runs,
)
from kohort.lab.member_settings import MemberSettings

POLL_S = 0.1
"""Maximum time a member waits for records before it checks whether to stop, in seconds."""

Commit = Callable[[Mapping[int, int]], bool]
"""Function that commits the next offset of each partition and waits.

It returns False if the coordinator rejects the commit because of a rebalance.
"""


class Application:
    """Application of one member. The polling thread calls all methods."""

    def __init__(
        self, settings: MemberSettings, commit: Commit, store: Store | None = None, hand_in: Commit | None = None
    ) -> None:
        """Create the application.

        `hand_in` commits revoked partitions where the callback need not wait for the commit.
        """
        self.stopping = threading.Event()
        self._settings = settings
        self._commit = commit
        self._hand_in = hand_in or commit
        self._store = store or Store(settings)
        self._owned: set[int] = set()
        self._ends: dict[int, int] = {}
        """Next offset by partition, of records that are read and not committed."""
        self._committed_at = time.monotonic()
        self._left = False
        signal.signal(signal.SIGTERM, lambda *_: self.stopping.set())

    def joining(self) -> None:
        """Report that the client is about to subscribe."""
        if self._store.port:
            self._say(Serving(*self._here(), self._store.port))
        self._say(Joining(*self._here()))

    def assigned(self, partitions: Iterable[int]) -> None:
        """Handle the client's callback: restore the new partitions."""
        won = sorted(partitions)
        if self._left:
            return  # aiokafka completes a rebalance before it leaves; the partitions from it are not processed
        self._say(Assigned(*self._here(), tuple(won)))
        self._store.restore(won)
        if self._store.restored:
            self._say(Restored(*self._here(), self._store.restored))
            self._store.restored = 0
        self._owned.update(won)
        self._say(Ready(*self._here()))

    def revoked(self, partitions: Iterable[int]) -> None:
        """Handle the client's callback: flush, commit and forget the revoked partitions."""
        self._give_up(partitions, self._hand_in)

    def _give_up(self, partitions: Iterable[int], commit: Commit) -> None:
        gone = self._owned.intersection(partitions)
        if self._left:
            return
        self._say(Revoked(*self._here(), tuple(sorted(gone))))
        self._settle(gone, commit)
        self._forget(gone)
        self._say(Ready(*self._here()))

    def lost(self, partitions: Iterable[int]) -> None:
        """Handle the client's callback. Other members may own the partitions already, so nothing is written."""
        gone = self._owned.intersection(partitions)
        self._say(Lost(*self._here(), tuple(sorted(gone))))
        self._forget(gone)
        self._say(Ready(*self._here()))

    def read(self, records: Iterable[tuple[int, int, bytes]]) -> None:
        """Count the records of a poll, given in order as (partition, offset, key)."""
        places = []
        for partition, offset, key in records:
            places.append((partition, offset))
            self._store.count(partition, key)
            self._ends[partition] = offset + 1
        if places:
            self._say(Read(*self._here(), tuple(runs(places))))

    def polled(self) -> None:
        """Commit if the interval has passed; called after each poll."""
        every = self._settings.commit_ms
        if every and time.monotonic() - self._committed_at >= every / 1000:
            self._settle(set(self._owned), self._commit)
            self._committed_at = time.monotonic()

    def leaving(self) -> None:
        """Give up all partitions and stop processing; called before the client closes."""
        if self._owned:
            self._give_up(set(self._owned), self._commit)
        self._left = True
        self._store.close()

    def _settle(self, partitions: set[int], commit: Commit) -> None:
        # The counts are written first: a crash in between counts some records twice, but never too few.
        self._store.flush(partitions)
        ends = {partition: end for partition, end in self._ends.items() if partition in partitions}
        if ends and commit(ends):
            for partition in ends:
                del self._ends[partition]
            if commit is self._commit:  # the commit is complete
                self._say(Committed(*self._here(), tuple(ends.items())))

    def _forget(self, partitions: set[int]) -> None:
        self._owned -= partitions
        self._store.forget(partitions)
        for partition in partitions:
            self._ends.pop(partition, None)

    def _here(self) -> tuple[int, str]:
        return time.monotonic_ns(), self._settings.name

    def _say(self, event: Event) -> None:
        # One write per line, so that a killed process leaves no incomplete line.
        sys.stdout.write(line(event) + "\n")
        sys.stdout.flush()
