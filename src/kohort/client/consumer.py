"""Records in: as a member of a group, or of partitions that the application names."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kohort.client.acceleration import columns_loading
from kohort.client.arguments import seconds, whole
from kohort.client.closing import undisturbed
from kohort.client.consumer_record import ConsumerRecord
from kohort.client.group_reader import LEAVE_TIMEOUT, GroupReader, check_callbacks
from kohort.client.loops import warn_unclosed
from kohort.client.partition_batch import PartitionBatch
from kohort.client.partitions import OffsetsCallback
from kohort.errors import KohortError
from kohort.member import PollEnded, PollStarted

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")

_COLUMNS_AT_ONCE = 100_000
"""Rows, where the caller does not say; what was fetched is usually less."""

_QUICK_MS = 50
_GIVES_WAY_S = 0.001
"""An application that polls more often than that is not held up by a turn of the loop each time."""


class Consumer(GroupReader):
    """Use it as an async context manager, or close it.

    async with Consumer("orders", bootstrap_servers="127.0.0.1:9092", group_id="billing") as consumer:
        async for record in consumer:
            ...

    Callbacks (plain or async) run inside `poll`, so never while the application works on records that it returned:
    a commit of what was processed, in `on_revoked`, makes each record count once. `on_lost` is told what is gone
    already (default: `on_revoked`). They are told `Partitions`: a set, whose `offsets` has the committed offset of each
    that is won, and the position of each that goes.

    All methods belong to the event loop it was made in; one task at a time may poll. Another thread, another loop or a
    process that was forked from this one needs a consumer of its own (ConcurrentUseError; `kohort.blocking.Consumer`
    is for plain threads). A consumer that nobody closes warns (ResourceWarning) when it is garbage, which it is once
    its loop has ended: it does not leave its group, which misses it when session_timeout_ms has passed.
    """

    def __init__(
        self,
        *topics: str,
        on_assigned: OffsetsCallback | None = None,
        on_revoked: OffsetsCallback | None = None,
        on_lost: OffsetsCallback | None = None,
        **options: Any,
    ) -> None:
        check_callbacks(topics, on_assigned, on_revoked, on_lost)
        super().__init__(options)
        self._polling = False
        self._quick_until = 0.0
        """Until then the member need not be told of polls that do not wait: it was told just now."""
        self._gives_way_at = 0.0
        """From then on the next poll begins with a turn of the loop."""
        self._close_asked = False
        """By a callback: close when it is done."""
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
        """Up to `max_records` (default: max_poll_records) records; an empty list after `timeout` seconds.

        Must be called again within max_poll_interval_ms. Callbacks run in it, which may take longer than `timeout`;
        what they raise is raised here. Cancelling it loses no record.
        """
        most = self._options.max_poll_records if max_records is None else whole("max_records", max_records, 1)
        return await self._poll(lambda: self._take(most), timeout)

    async def poll_arrow(self, max_records: int | None = None, timeout: float = 1.0) -> "pa.Table":  # noqa: ASYNC109
        """As `poll`, as one Arrow table: key, value, topic, partition, offset, timestamp, headers.

        No object is made for each record, which is several times as fast. By default as many records as were fetched.
        Needs `pip install 'kohort[fast]'`.
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
        """As `poll_arrow`, partition by partition: batches of the same columns, each of one partition."""
        most = _COLUMNS_AT_ONCE if max_records is None else whole("max_records", max_records, 1)
        loading = columns_loading("poll_arrow and poll_batches")
        if not loading.done():
            await asyncio.shield(asyncio.wrap_future(loading))
        loading.result()
        return await self._poll(lambda: self._take_columns(most), timeout)

    async def _poll(self, take: Callable[[], list[_T]], timeout: float) -> list[_T]:  # noqa: ASYNC109
        """What `take` has, as soon as it has something."""
        patience = seconds("timeout", timeout)
        self._check_open()
        if self._polling:
            raise KohortError("poll is already running in another task.")
        self._polling = True
        try:
            # Whatever the application does between polls, the loop gets its turns here: heartbeats and fetches go on.
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
        """As `_taken`, while the member knows that the application waits."""
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
        """The next record, however long it takes. Ends when the consumer is closed."""
        while not self._unread:
            if self._closed:
                raise StopAsyncIteration
            await self.read_ahead()
        return self._unread.pop()

    async def read_ahead(self) -> None:
        """Poll for what `next_unread` hands out."""
        if not self._closed:
            self._unread.extend(await self.poll(timeout=60.0))

    def next_unread(self) -> ConsumerRecord | None:
        """The next of what was read ahead, which counts as handed out from now on; None for none."""
        return self._unread.pop() if self._unread else None

    # -- the end

    async def close(self, *, timeout: float = LEAVE_TIMEOUT) -> None:  # noqa: ASYNC109
        """Commit (where auto commit is on), give everything up, leave, disconnect. Closing twice is fine.

        What the coordinator does not answer within `timeout` seconds is given up. Called by a callback, it is done
        when the callback is: by the poll that runs it.
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
        """Disconnect without a commit and without leaving the group: the application let go of the consumer."""
        self._closed = True
        self._stop_matching()
        await undisturbed(self._clean_up())

    def close_after_callback(self) -> None:
        """Close when the callback that runs is done."""
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
