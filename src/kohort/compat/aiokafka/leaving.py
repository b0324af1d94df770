"""`unsubscribe` without `await`: a task leaves the group, and what follows waits for it."""

import asyncio
from collections.abc import Callable

from kohort import client


class Leaving:
    """Task in which a consumer leaves its group, and the calls after it."""

    def __init__(self, consumer: client.Consumer) -> None:
        self._consumer = consumer
        self._task: asyncio.Task[None] | None = None
        self._next: list[Callable[[], None]] = []

    @property
    def active(self) -> bool:
        """Whether the consumer is leaving."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Start to leave."""
        self._next.clear()
        if not self.active:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="kohort-unsubscribe")

    def then(self, call: Callable[[], None]) -> None:
        """Call `call` now, or when the consumer has left."""
        if self.active:
            self._next.append(call)
        else:
            call()

    async def wait(self) -> None:
        """Wait until the consumer has left and the calls after it have ended. Raises their errors."""
        if self._task is not None:
            task = self._task
            try:
                await asyncio.shield(task)
            finally:
                if task.done():
                    self._task = None

    async def _run(self) -> None:
        await self._consumer.unsubscribe()
        for call in self._next:
            call()
