"""Consumer of records, as a member of a group or of manually assigned partitions."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from kohort.client.arguments import seconds, whole
from kohort.client.consume.acceleration import columns_loading
from kohort.client.consume.consumer_record import ConsumerRecord
from kohort.client.consume.group_reader import LEAVE_TIMEOUT, GroupReader, check_callbacks
from kohort.client.consume.partition_batch import PartitionBatch
from kohort.client.consume.partition_events import OffsetsCallback
from kohort.client.keywords import ConsumerKeywords
from kohort.client.loops import warn_unclosed
from kohort.client.net.closing import undisturbed
from kohort.errors import KohortError
from kohort.member import PollEnded, PollStarted

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")

_COLUMNS_AT_ONCE = 100_000
"""Default maximum number of rows; a fetch usually returns fewer."""

_QUICK_MS = 50
_GIVES_WAY_S = 0.001
"""Minimum interval between yields to the event loop, so that frequent polls do not each pay for one."""


class Consumer(GroupReader):
    """Consumer of topics or partitions.

    Use it as an async context manager, or call `close`.

    async with Consumer("orders", bootstrap_servers="127.0.0.1:9092", group_id="billing") as consumer:
        async for record in consumer:
            ...

    Callbacks (plain or async) run inside `poll`, so never while the application processes records
    that `poll` returned. Committing processed records in `on_revoked` therefore makes each record
    count once. `on_lost` is called for partitions that are already lost (default: `on_revoked`).
    Callbacks receive `Partitions`: a set with an attribute `offsets`, which holds the committed
    offset of each assigned partition or the position of each revoked or lost partition.

    All methods belong to the event loop in which the consumer was created. Only one task may poll
    at a time. Another thread, another loop or a forked process needs its own consumer; otherwise
    ConcurrentUseError is raised. Plain threads use `kohort.blocking.Consumer`.

    A consumer that is not closed emits a ResourceWarning when it is garbage collected, which
    happens once its loop has ended. It does not leave its group; the coordinator removes the member
    after session_timeout_ms.
    """

    def __init__(
        self,
        *topics: str,
        on_assigned: OffsetsCallback | None = None,
        on_revoked: OffsetsCallback | None = None,
        on_lost: OffsetsCallback | None = None,
        **options: Unpack[ConsumerKeywords],
    ) -> None:
        check_callbacks(topics, on_assigned, on_revoked, on_lost)
        super().__init__(options)
        self._polling = False
        self._quick_until = 0.0
        """Loop time until which a poll that does not wait need not notify the member again."""
        self._gives_way_at = 0.0
        """Loop time from which the next poll first yields to the event loop."""
        self._close_asked = False
        """Whether a callback asked to close the consumer once the callback has finished."""
        if topics:
            try:
                self.subscribe(topics, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost)
            except BaseException:
                self._closed = True  # nothing was opened
                raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            warn_unclosed(self)

    async def unsubscribe(self) -> None:
        await super().unsubscribe()
        await self._close_if_asked()

    # -- records

    async def poll(self, max_records: int | None = None, timeout: float = 1.0) -> list[ConsumerRecord]:  # noqa: ASYNC109
        """Return up to `max_records` records, or an empty list after `timeout` seconds.

        `max_records` defaults to max_poll_records. Call `poll` again within max_poll_interval_ms.
        Callbacks run inside it and may take longer than `timeout`; it raises their exceptions.
        Cancelling it loses no records.
        """
        most = self._options.max_poll_records if max_records is None else whole("max_records", max_records, 1)
        return await self._poll(lambda: self._take(most), timeout)

    async def poll_arrow(self, max_records: int | None = None, timeout: float = 1.0) -> "pa.Table":  # noqa: ASYNC109
        """Return records as one Arrow table: key, value, topic, partition, offset, timestamp, headers.

        Behaves as `poll`, but creates no object per record, which is several times as fast. By
        default it returns all fetched records. Requires `pip install 'kohort[fast]'`.
        """
        batches = await self.poll_batches(max_records, timeout)

        import pyarrow as pa

        from kohort.columns.schema import SCHEMA

        return pa.Table.from_batches([one.records for one in batches], schema=SCHEMA)

    async def poll_batches(
        self,
        max_records: int | None = None,
        timeout: float = 1.0,  # noqa: ASYNC109
    ) -> list[PartitionBatch]:
        """Return records as Arrow batches of one partition each, with the columns of `poll_arrow`."""
        most = _COLUMNS_AT_ONCE if max_records is None else whole("max_records", max_records, 1)
        loading = columns_loading("poll_arrow and poll_batches")
        if not loading.done():
            await asyncio.shield(asyncio.wrap_future(loading))
        loading.result()
        return await self._poll(lambda: self._take_columns(most), timeout)

    async def _poll(self, take: Callable[[], list[_T]], timeout: float) -> list[_T]:  # noqa: ASYNC109
        """Return the result of `take` as soon as it is not empty."""
        patience = seconds("timeout", timeout)
        self._check_open()
        if self._polling:
            raise KohortError("poll is already running in another task.")
        self._polling = True
        try:
            # Yield here regardless of what the application does between polls, so that heartbeats
            # and fetches proceed.
            if self._loop.time() >= self._gives_way_at:
                await asyncio.sleep(0)
                self._gives_way_at = self._loop.time() + _GIVES_WAY_S
            if self._loop.time() < self._quick_until and not self._rebalances.waiting and not self._close_asked:
                self._raise_errors()
                self._commits.commit_if_due()
                if taken := take():
                    return taken
            return await self._attended(take, patience)
        finally:
            self._polling = False

    async def _attended(self, take: Callable[[], list[_T]], timeout: float) -> list[_T]:  # noqa: ASYNC109
        """Call `_taken` and notify the member when the application starts and stops polling."""
        driver = self._driver
        if driver is None:
            return await self._taken(take, timeout)
        driver.handle(PollStarted())
        try:
            return await self._taken(take, timeout)
        finally:
            driver.handle(PollEnded())
            quick_ms = min(_QUICK_MS, self._options.max_poll_interval_ms / 100)
            self._quick_until = self._loop.time() + quick_ms / 1000

    async def _taken(self, take: Callable[[], list[_T]], timeout: float) -> list[_T]:  # noqa: ASYNC109
        deadline = self._loop.time() + timeout
        while True:
            await self._rebalances.run_pending()
            await self._close_if_asked()
            if self._closed:
                return []
            self._raise_errors()
            self._commits.commit_if_due()
            taken = take()
            if taken:
                return taken
            left = deadline - self._loop.time()
            if left <= 0:
                return []
            self._news.clear()
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                pass

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Return the next record, waiting as long as necessary. Iteration ends when the consumer is closed."""
        while not self._unread:
            if self._closed:
                raise StopAsyncIteration
            await self.read_ahead()
        return self._unread.pop()

    async def read_ahead(self) -> None:
        """Poll for the records that `next_unread` returns."""
        if not self._closed:
            self._unread.extend(await self.poll(timeout=60.0))

    def next_unread(self) -> ConsumerRecord | None:
        """Return the next record that was read ahead, or None. It counts as handed out from then on."""
        return self._unread.pop() if self._unread else None

    # -- closing

    async def close(self, *, timeout: float = LEAVE_TIMEOUT) -> None:  # noqa: ASYNC109
        """Commit if auto commit is enabled, release all partitions, leave the group and disconnect.

        Requests that the coordinator does not answer within `timeout` seconds are abandoned. If a
        callback calls it, the poll that runs the callback closes the consumer once the callback has
        finished. Closing twice is allowed.
        """
        patience = seconds("timeout", timeout)
        if self._closed:
            return
        if self._rebalances.inside:
            self.close_after_callback()
            return
        self._closed = True
        self._news.set()
        self._stop_matching()
        try:
            if self._driver is not None:
                await self._leave("the consumer closes", patience)
            else:
                self._commits.patience = min(self._commits.patience, patience)
                await self._commits.commit_automatically()
        finally:
            await undisturbed(self._clean_up())
        self._rebalances.raise_error()

    async def abandon(self) -> None:
        """Disconnect without committing or leaving the group, after the application dropped the consumer."""
        self._closed = True
        self._stop_matching()
        await undisturbed(self._clean_up())

    def close_after_callback(self) -> None:
        """Close the consumer once the running callback has finished."""
        self._close_asked = True

    async def _close_if_asked(self) -> None:
        if self._close_asked:
            await self.close()

    async def _clean_up(self) -> None:
        await self._commits.close()
        await self._rebalances.close()
        if self._driver is not None:
            await self._driver.close()
        await self._stop_reading()
