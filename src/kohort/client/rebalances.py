"""When a consumer's callbacks run: inside `poll`, never while the application works on records."""

import asyncio
from collections.abc import Awaitable, Callable

from kohort.member.callbacks import CallbackKind
from kohort.model import TopicPartition


class Rebalances:
    """`begin` is told by the member; `carry_out` does it, callback included; `done` tells the member that it is done.

    `news` wakes a poll that waits.
    """

    def __init__(
        self,
        carry_out: Callable[[CallbackKind, frozenset[TopicPartition]], Awaitable[None]],
        done: Callable[[], None],
        news: Callable[[], None],
    ) -> None:
        self.error: Exception | None = None
        """What the application's callback raised first."""
        self._carry_out = carry_out
        self._done = done
        self._news = news
        self._loop = asyncio.get_running_loop()
        self._at_once = False
        self._pending: tuple[CallbackKind, frozenset[TopicPartition]] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def inside(self) -> bool:
        """Whether the caller is a callback."""
        return self._task is not None and asyncio.current_task() is self._task

    @property
    def waiting(self) -> bool:
        """Whether `run_pending` has something to do."""
        return self._pending is not None or self._task is not None

    def begin(self, kind: CallbackKind, partitions: frozenset[TopicPartition]) -> None:
        """Do this when `run_pending` is called next, or at once."""
        self._pending = kind, partitions
        if self._at_once:
            self._start()
        self._news()

    def start_at_once(self, at_once: bool) -> None:
        """While the consumer leaves nobody polls: begin what is pending, and what comes."""
        self._at_once = at_once
        if at_once and self._pending is not None:
            self._start()

    async def run_pending(self) -> None:
        """Run it in a task of its own, so that a poll that is cancelled leaves no half-done callback."""
        while self.waiting:
            if self._task is None:
                self._start()
            assert self._task is not None
            await asyncio.shield(self._task)

    def raise_error(self) -> None:
        """Raise what a callback raised, once."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    async def close(self) -> None:
        """Cancel what runs."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _start(self) -> None:
        assert self._pending is not None and self._task is None
        kind, partitions = self._pending
        self._pending = None
        self._task = self._loop.create_task(self._run(kind, partitions), name=f"kohort-{kind.value}")

    async def _run(self, kind: CallbackKind, partitions: frozenset[TopicPartition]) -> None:
        try:
            await self._carry_out(kind, partitions)
        except Exception as problem:  # noqa: BLE001  the application's own, raised again by poll or close
            self.error = self.error or problem
        finally:
            self._task = None
            self._done()
