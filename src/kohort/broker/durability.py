"""Group commit: one sync for everything that was appended while the last one ran, flushed when the loop is idle.

An answer that acknowledges an append is given to the `Commit` that the append belongs to and sent when that commit is
on disk. Were it sent earlier, a crash could forget what a client was promised.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from kohort.log.api import LogStore, PartitionLog, Pending

log = logging.getLogger("kohort.broker")


class Commit:
    """Appends that become durable together, and what waits for that."""

    __slots__ = ("_failed", "_settled", "done")

    def __init__(self) -> None:
        self.done = False
        self._settled: list[Callable[[], None]] = []
        self._failed: list[Callable[[], None]] = []

    def then(self, settled: Callable[[], None], failed: Callable[[], None]) -> None:
        """Call `settled` once it is on disk, or `failed` if it will never be; both in the order of registration."""
        assert not self.done
        self._settled.append(settled)
        self._failed.append(failed)

    def finish(self, failed: bool) -> None:
        """Tell everybody who waits; only the writer calls it."""
        self.done = True
        calls = self._failed if failed else self._settled
        # Whoever waits may hold the commit: cleared, all of them are freed now and not by the collector.
        self._settled, self._failed = [], []
        for call in calls:
            try:
                call()
            except Exception:  # our bug: it costs who waited with this call, not the others
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
        self._next: Commit | None = None
        self._before_take: list[Callable[[], None]] = []
        self._running: asyncio.Future[None] | None = None
        self._scheduled = False

    def current(self) -> Commit:
        """The commit that an append made now belongs to; asking for it schedules it."""
        if self._next is None:
            self._next = Commit()
            self._schedule()
        return self._next

    def before_take(self, call: Callable[[], None]) -> None:
        """Call once right before the current commit is taken: the last moment to append to it."""
        self._before_take.append(call)

    async def drain(self) -> None:
        """Wait until everything appended so far is settled or has failed."""
        while self._next is not None or self._running is not None:
            settled = asyncio.Event()
            self.current().then(settled.set, settled.set)
            await settled.wait()

    async def close(self) -> None:
        """Drain and end the thread."""
        await self.drain()
        self._thread.shutdown()

    def _schedule(self) -> None:
        if not self._scheduled and self._running is None:
            self._scheduled = True
            # After the sockets that are readable now: their appends share this sync.
            self._loop.call_soon(self._start)

    def _start(self) -> None:
        self._scheduled = False
        calls, self._before_take = self._before_take, []
        for call in calls:
            call()
        commit, self._next = self._next, None
        if commit is None:
            return
        pending = self._store.take()
        if pending is None:
            commit.finish(failed=False)
            self._flushed(())
            if self._next is not None:
                self._schedule()
            return
        self._running = self._loop.run_in_executor(self._thread, self._store.sync, pending)
        self._running.add_done_callback(lambda future: self._finished(future, commit, pending))

    def _finished(self, future: "asyncio.Future[None]", commit: Commit, pending: Pending) -> None:
        self._running = None
        error = future.exception()
        moved: Sequence[PartitionLog] = ()
        if error is None:
            moved = self._store.settle(pending)
            commit.finish(failed=False)
        else:
            self._fail(commit, pending, error)
        self._flushed(moved)
        if self._next is not None:
            self._schedule()

    def _fail(self, commit: Commit, pending: Pending, error: BaseException) -> None:
        if not isinstance(error, OSError):
            raise error
        log.error("the log could not be written; what waited is refused: %s", error)
        # Appends behind the failed ones go with them: an offset must not stand on a gap.
        calls, self._before_take = self._before_take, []
        for call in calls:
            call()
        behind, self._next = self._next, None
        self._store.fail(pending, error)
        commit.finish(failed=True)
        if behind is not None:
            behind.finish(failed=True)
