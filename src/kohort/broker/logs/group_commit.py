"""Group commit: one sync for everything that was appended while the previous one ran, started when the loop is idle.

An answer that acknowledges an append waits in the append's `GroupCommit` and is sent when that commit is on disk. If it
were sent earlier, a crash could lose data that a client believes to be stored.

The coordinators' partitions have commits of their own. A store divides a write that needs many new files into several
syncs. The records of groups are part of the next one; all other appends are acknowledged after the last one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, count
from time import perf_counter

from kohort.log import LogStore, PartitionLog, Pending

log = logging.getLogger("kohort.broker")

_NO_HURRY_S = 0.02
"""Longest time for which appends wait for others to share a sync with, if nobody waits for them, in seconds."""


class GroupCommit:
    """Appends that become durable together, and the callbacks that wait for that."""

    __slots__ = ("_numbers", "_waiting", "done")

    def __init__(self, numbers: Iterator[int]) -> None:
        """`numbers` ascend: callbacks of commits that finish together are called in their order of registration."""
        self.done = False
        self._numbers = numbers
        self._waiting: list[tuple[int, Callable[[], None], Callable[[], None]]] = []

    def then(self, settled: Callable[[], None], failed: Callable[[], None]) -> None:
        """Call `settled` once the commit is on disk, or `failed` if it cannot be; in the order of registration."""
        assert not self.done
        self._waiting.append((next(self._numbers), settled, failed))

    @staticmethod
    def finish(commits: Iterable["GroupCommit | None"], *, failed: bool) -> None:
        """Call the callbacks of these commits. Only the writer calls this."""
        finished = [commit for commit in commits if commit is not None]
        waiting = sorted(chain.from_iterable(commit._waiting for commit in finished))
        for commit in finished:
            commit.done = True
            # A callback may hold the commit. Clearing the list frees both now, without the garbage collector.
            commit._waiting = []
        for _, when_settled, when_failed in waiting:
            try:
                (when_failed if failed else when_settled)()
            except Exception:  # a bug in a callback must not affect the others
                log.exception("what waited for a commit could not be told")


class Writer:
    """Take what the store has queued, sync it in one thread and settle it, again and again while there is more."""

    def __init__(
        self, store: LogStore, loop: asyncio.AbstractEventLoop, flushed: Callable[[Sequence[PartitionLog]], None]
    ) -> None:
        """Start idle. `flushed` is called after each finished commit, with the logs that have more to read."""
        self._store = store
        self._loop = loop
        self._flushed = flushed
        self._thread = ThreadPoolExecutor(1, "kohort-writer")
        self._numbers = count()
        self._next: GroupCommit | None = None
        self._next_first: GroupCommit | None = None
        self._divided: GroupCommit | None = None
        """The commit whose appends the store has divided, while some of them are not synced."""
        self._before_take: list[Callable[[], None]] = []
        self._running: asyncio.Future[None] | None = None
        self._scheduled = False
        self._later: asyncio.TimerHandle | None = None
        """The timer of appends that nobody waits for."""
        self.synced: Callable[[float], None] | None = None
        """Called after each sync with the value that `perf_counter` had at its start; None measures nothing."""

    def current(self) -> GroupCommit:
        """Return the commit that an append made now belongs to, and schedule it."""
        if self._next is None:
            self._next = GroupCommit(self._numbers)
            self._schedule()
        return self._next

    def current_first(self, *, in_a_hurry: bool = True) -> GroupCommit:
        """Return the commit for an append to a partition that is synced first; see `PartitionLog.sync_first`.

        An append that nobody waits for is not in a hurry: it shares the sync of the next one. Call `hurry` if somebody
        waits for it after all.
        """
        if self._next_first is None:
            self._next_first = GroupCommit(self._numbers)
        if in_a_hurry:
            self._schedule()
        elif self._later is None:
            self._later = self._loop.call_later(_NO_HURRY_S, self.hurry)
        return self._next_first

    def hurry(self) -> None:
        """Schedule what waits for no sync yet."""
        if self._waits:
            self._schedule()

    def before_take(self, call: Callable[[], None]) -> None:
        """Call once right before the current commit is taken: the last chance to append to it."""
        self._before_take.append(call)

    async def drain(self) -> None:
        """Wait until everything appended before is settled or has failed."""
        while self._waits or self._running is not None:
            settled = asyncio.Event()
            self.current().then(settled.set, settled.set)
            await settled.wait()

    async def close(self) -> None:
        """Drain, then end the thread."""
        await self.drain()
        self._thread.shutdown()

    @property
    def _waits(self) -> bool:
        """Whether anything must be taken from the store."""
        return self._next is not None or self._next_first is not None or self._divided is not None

    def _schedule(self) -> None:
        if not self._scheduled and self._running is None:
            self._scheduled = True
            # After the sockets that are readable now are handled, so that their appends share this sync.
            self._loop.call_soon(self._start)

    def _start(self) -> None:
        self._scheduled = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._call_before_take()
        if not self._waits:
            return
        first, self._next_first = self._next_first, None
        commit = self._divided
        if commit is None:
            commit, self._next = self._next, None
        pending = self._store.take()
        if pending is None:
            GroupCommit.finish((first, commit), failed=False)
            self._flushed(())
            return
        if pending.is_last:
            self._divided = None
        else:  # even if nothing waits for these appends, a commit makes the writer take the remaining parts
            self._divided = commit = commit or GroupCommit(self._numbers)
        self._running = self._loop.run_in_executor(self._thread, self._store.sync, pending)
        if self.synced is not None:
            self._running.add_done_callback(partial(_measured, self.synced, perf_counter()))
        self._running.add_done_callback(lambda future: self._finished(future, first, commit, pending))

    def _call_before_take(self) -> None:
        calls, self._before_take = self._before_take, []
        for call in calls:
            call()

    def _finished(
        self, future: "asyncio.Future[None]", first: GroupCommit | None, commit: GroupCommit | None, pending: Pending
    ) -> None:
        self._running = None
        error = future.exception()
        moved: Sequence[PartitionLog] = ()
        if error is None:
            moved = self._store.settle(pending)
            GroupCommit.finish((first, commit) if pending.is_last else (first,), failed=False)
        else:
            self._fail((first, commit), pending, error)
        self._flushed(moved)
        if self._waits:
            self._schedule()

    def _fail(self, commits: tuple[GroupCommit | None, ...], pending: Pending, error: BaseException) -> None:
        if not isinstance(error, OSError):
            raise error
        log.error("the log could not be written; the waiting requests are rejected: %s", error)
        # Later appends must fail, too: there must be no gap below an offset.
        self._call_before_take()
        behind = (self._next_first, self._next)
        self._next = self._next_first = self._divided = None
        self._store.fail(pending, error)
        GroupCommit.finish(commits, failed=True)
        GroupCommit.finish(behind, failed=True)


def _measured(synced: Callable[[float], None], started: float, _future: "asyncio.Future[None]") -> None:
    synced(started)
