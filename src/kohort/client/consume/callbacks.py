"""Scheduling of a consumer's rebalance callbacks.

Callbacks run inside `poll`, never while the application processes records.
"""

import asyncio
from collections.abc import Awaitable, Callable

from kohort.member import CallbackKind
from kohort.model import TopicPartition


class RebalanceCallbacks:
    """Runner of a consumer's rebalance callbacks.

    The member calls `begin`. `carry_out` does the work, including the application's callback, and
    `done` then notifies the member. `news` wakes a waiting poll.
    """

    def __init__(
        self,
        carry_out: Callable[[CallbackKind, frozenset[TopicPartition]], Awaitable[None]],
        done: Callable[[], None],
        news: Callable[[], None],
    ) -> None:
        self.error: Exception | None = None
        """First exception raised by the application's callback."""
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
        """Schedule this work for the next `run_pending`, or start it now after `start_at_once(True)`."""
        self._pending = kind, partitions
        if self._at_once:
            self._start()
        self._news()

    def start_at_once(self, at_once: bool) -> None:
        """Set whether work starts immediately instead of in the next poll.

        While the consumer leaves its group, nothing calls poll. Pending work starts at once, too.
        """
        self._at_once = at_once
        if at_once and self._pending is not None:
            self._start()

    async def run_pending(self) -> None:
        """Run the pending work in its own task, so that cancelling a poll does not interrupt a callback."""
        while self.waiting:
            if self._task is None:
                self._start()
            assert self._task is not None
            await asyncio.shield(self._task)

    def raise_error(self) -> None:
        """Raise the exception of a callback, once."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    async def close(self) -> None:
        """Cancel the running callback."""
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
        except Exception as problem:  # noqa: BLE001  the application's exception; poll or close raises it again
            self.error = self.error or problem
        finally:
            self._task = None
            self._done()
