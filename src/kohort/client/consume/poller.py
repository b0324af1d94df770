"""Polling: wait for records, and run the callbacks of rebalances meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kohort.client.consume.commits import Commits
from kohort.client.consume.group_subscription import GroupSubscription
from kohort.client.consume.poll_metrics import PollMetrics
from kohort.client.options import ConsumerOptions
from kohort.errors import KohortError
from kohort.member import PollEnded, PollStarted

_T = TypeVar("_T")

_NOTIFY_INTERVAL_MS = 50
"""Maximum interval between two notifications of the member that the application polls."""
_YIELD_INTERVAL_S = 0.001
"""Minimum interval between yields to the event loop, so that frequent polls do not each pay for one."""


class Poller:
    """Polls of one consumer, one at a time.

    `news` is set when a waiting poll must check again. `raise_errors` raises what the application
    must know. `closed` closes the consumer if that was requested, and returns whether it is closed.
    """

    def __init__(
        self,
        options: ConsumerOptions,
        group: GroupSubscription,
        commits: Commits,
        news: asyncio.Event,
        raise_errors: Callable[[], None],
        closed: Callable[[], Awaitable[bool]],
    ) -> None:
        self.close_requested = False
        """Whether a callback asked to close the consumer once the callback has finished."""
        self.metrics = PollMetrics(options.sampling)
        self._options = options
        self._group = group
        self._commits = commits
        self._news = news
        self._raise_errors = raise_errors
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._polling = False
        self._expired = False
        """Whether the timeout of the current poll has passed."""
        self._notified_until = 0.0
        """Loop time until which a poll that does not wait need not notify the member again."""
        self._yield_at = 0.0
        """Loop time from which the next poll first yields to the event loop."""

    async def poll(self, take: Callable[[], list[_T]], timeout: float) -> list[_T]:  # noqa: ASYNC109
        """Return the result of `take` as soon as it is not empty, or an empty list after `timeout` seconds."""
        if self._polling:
            raise KohortError("poll is already running in another task.")
        self._polling = True
        now = self._loop.time()
        self.metrics.began(now)
        try:
            # Yield here regardless of what the application does between polls, so that heartbeats
            # and fetches proceed.
            if now >= self._yield_at:
                await asyncio.sleep(0)
                self._yield_at = self._loop.time() + _YIELD_INTERVAL_S
            waiting = self._group.rebalances.waiting or self.close_requested
            if self._loop.time() < self._notified_until and not waiting:
                self._raise_errors()
                self._commits.commit_if_due()
                if taken := take():
                    return taken
            return await self._notify_and_wait(take, timeout)
        finally:
            self._polling = False

    async def _notify_and_wait(self, take: Callable[[], list[_T]], timeout: float) -> list[_T]:  # noqa: ASYNC109
        """Call `_wait`, and notify the member when the application starts and stops polling."""
        driver = self._group.driver
        if driver is None:
            return await self._wait(take, timeout)
        driver.handle(PollStarted())
        try:
            return await self._wait(take, timeout)
        finally:
            driver.handle(PollEnded())
            interval_ms = min(_NOTIFY_INTERVAL_MS, self._options.max_poll_interval_ms / 100)
            self._notified_until = self._loop.time() + interval_ms / 1000

    async def _wait(self, take: Callable[[], list[_T]], timeout: float) -> list[_T]:  # noqa: ASYNC109
        # One timer, which sets a flag: an exception would cost as much as the rest of an idle poll,
        # and the loop's clock may be just before the deadline when the timer fires.
        self._expired = timeout <= 0
        timer = None if self._expired else self._loop.call_later(timeout, self._expire)
        try:
            while True:
                await self._group.rebalances.run_pending()
                if await self._closed():
                    return []
                self._raise_errors()
                self._commits.commit_if_due()
                taken = take()
                if taken or self._expired:
                    return taken
                self._news.clear()
                await self._news.wait()
                now = self._loop.time()
                self._yield_at = now + _YIELD_INTERVAL_S  # the wait was a yield
                self.metrics.waited(now)
        finally:
            if timer is not None:
                timer.cancel()

    def _expire(self) -> None:
        self._expired = True
        self._news.set()
