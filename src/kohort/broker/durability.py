"""Group commit: one sync for everything that was appended while the last one ran, flushed when the loop is idle.

An answer that acknowledges an append is given to the `Commit` that the append belongs to and sent when that commit is
on disk. Were it sent earlier, a crash could forget what a client was promised.

The partitions of coordinators have commits of their own. A store divides what needs many new files into several syncs:
what groups append is in the next of them, and all other appends are acknowledged after the last.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count

from kohort.log.api import LogStore, PartitionLog, Pending

log = logging.getLogger("kohort.broker")


class Commit:
    """Appends that become durable together, and what waits for that."""

    __slots__ = ("_numbers", "_waiting", "done")

    def __init__(self, numbers: Iterator[int]) -> None:
        """`numbers` ascend: commits that finish together call in the order of registration over all of them."""
        self.done = False
        self._numbers = numbers
        self._waiting: list[tuple[int, Callable[[], None], Callable[[], None]]] = []

    def then(self, settled: Callable[[], None], failed: Callable[[], None]) -> None:
        """Call `settled` once it is on disk, or `failed` if it will never be; both in the order of registration."""
        assert not self.done
        self._waiting.append((next(self._numbers), settled, failed))

    @staticmethod
    def finish(commits: Iterable["Commit | None"], *, failed: bool) -> None:
        """Call what waits for these commits; only the writer does it."""
        finished = [commit for commit in commits if commit is not None]
        waiting = sorted(chain.from_iterable(commit._waiting for commit in finished))
        for commit in finished:
            commit.done = True
            # A callback may hold the commit: cleared, all of them are freed now and not by the collector.
            commit._waiting = []
        for _, when_settled, when_failed in waiting:
            try:
                (when_failed if failed else when_settled)()
            except Exception:  # our bug: it costs this call, not the others
                log.exception("what waited for a commit could not be told")


class Writer:
    """Takes what the store has queued, syncs it in one thread, settles it; again while there is more."""

    def __init__(
        self, store: LogStore, loop: asyncio.AbstractEventLoop, flushed: Callable[[Sequence[PartitionLog]], None]
    ) -> None:
        """`flushed` is called after each commit is finished, with the logs that have more to read."""
        self._store = store
        self._loop = loop
        self._flushed = flushed
        self._thread = ThreadPoolExecutor(1, "kohort-writer")
        self._numbers = count()
        self._next: Commit | None = None
        self._next_first: Commit | None = None
        self._divided: Commit | None = None
        """The commit whose appends the store has divided, while some of them are not synced."""
        self._before_take: list[Callable[[], None]] = []
        self._running: asyncio.Future[None] | None = None
        self._scheduled = False

    def current(self) -> Commit:
        """The commit that an append made now belongs to; asking for it schedules it."""
        if self._next is None:
            self._next = Commit(self._numbers)
            self._schedule()
        return self._next

    def current_first(self) -> Commit:
        """`current` for an append to a partition that is synced first: `PartitionLog.sync_first`."""
        if self._next_first is None:
            self._next_first = Commit(self._numbers)
            self._schedule()
        return self._next_first

    def before_take(self, call: Callable[[], None]) -> None:
        """Call once right before the current commit is taken: the last moment to append to it."""
        self._before_take.append(call)

    async def drain(self) -> None:
        """Wait until everything appended so far is settled or has failed."""
        while self._waits or self._running is not None:
            settled = asyncio.Event()
            self.current().then(settled.set, settled.set)
            await settled.wait()

    async def close(self) -> None:
        """Drain and end the thread."""
        await self.drain()
        self._thread.shutdown()

    @property
    def _waits(self) -> bool:
        """Whether something is to be taken."""
        return self._next is not None or self._next_first is not None or self._divided is not None

    def _schedule(self) -> None:
        if not self._scheduled and self._running is None:
            self._scheduled = True
            # After the sockets that are readable now: their appends share this sync.
            self._loop.call_soon(self._start)

    def _start(self) -> None:
        self._scheduled = False
        self._call_before_take()
        if not self._waits:
            return
        first, self._next_first = self._next_first, None
        commit = self._divided
        if commit is None:
            commit, self._next = self._next, None
        pending = self._store.take()
        if pending is None:
            Commit.finish((first, commit), failed=False)
            self._flushed(())
            if self._waits:
                self._schedule()
            return
        if pending.is_last:
            self._divided = None
        else:  # without a commit, its appends were nobody's to wait for, but the parts must be taken all the same
            self._divided = commit = commit or Commit(self._numbers)
        self._running = self._loop.run_in_executor(self._thread, self._store.sync, pending)
        self._running.add_done_callback(lambda future: self._finished(future, first, commit, pending))

    def _call_before_take(self) -> None:
        calls, self._before_take = self._before_take, []
        for call in calls:
            call()

    def _finished(
        self, future: "asyncio.Future[None]", first: Commit | None, commit: Commit | None, pending: Pending
    ) -> None:
        self._running = None
        error = future.exception()
        moved: Sequence[PartitionLog] = ()
        if error is None:
            moved = self._store.settle(pending)
            Commit.finish((first, commit) if pending.is_last else (first,), failed=False)
        else:
            self._fail((first, commit), pending, error)
        self._flushed(moved)
        if self._waits:
            self._schedule()

    def _fail(self, commits: tuple[Commit | None, ...], pending: Pending, error: BaseException) -> None:
        if not isinstance(error, OSError):
            raise error
        log.error("the log could not be written; what waited is refused: %s", error)
        # Appends behind the failed ones go with them: an offset must not stand on a gap.
        self._call_before_take()
        behind = (self._next_first, self._next)
        self._next = self._next_first = self._divided = None
        self._store.fail(pending, error)
        Commit.finish(commits, failed=True)
        Commit.finish(behind, failed=True)
