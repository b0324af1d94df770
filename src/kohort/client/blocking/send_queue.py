"""Queue of records that the sending threads leave to the event loop, because they would have to wait."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Union

from kohort.client.failures import BufferFullError
from kohort.client.produce import (
    OPEN,
    BatchedRecord,
    Delivery,
    Failure,
    ProducerCore,
    RecordMetadata,
    delivery_of,
    unwatch_unclosed,
    watch_unclosed,
)
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.member.transactions import TransactionAbortableError
from kohort.model import Millis
from kohort.wire.batches import Header


class PendingDelivery:
    """Result of one record: not queued yet, queued in the event loop, or rejected."""

    __slots__ = ("calls", "delivery", "failure", "place")

    def __init__(self) -> None:
        self.delivery: Delivery | None = None
        self.failure: Failure | None = None
        self.calls: list[Callable[[], object]] | None = None
        """Functions that wait for the record to be queued in the event loop or rejected."""
        self.place: int
        """Index of this record among those of `failure`."""

    @classmethod
    def of(cls, record: BatchedRecord) -> "PendingDelivery":
        """Return the result of a record that is in a batch."""
        pending = cls()
        pending.delivery = delivery_of(record)
        return pending

    def done(self) -> bool:
        """Return whether the record is written or has failed."""
        return self.failure is not None or (self.delivery is not None and self.delivery.done())

    def failed(self) -> bool:
        """Return whether the record has failed."""
        return self.failure is not None or (self.delivery is not None and self.delivery.failed())

    @property
    def error(self) -> Exception | None:
        """Error of a failed record, or None. The failure still counts as unchecked."""
        if self.failure is not None:
            return self.failure.error
        return None if self.delivery is None else self.delivery.error

    def when_done(self, call: Callable[[], object]) -> None:
        """Call `call` once the record is written or has failed. Belongs to the event loop."""
        if self.failure is not None:
            call()
        elif self.delivery is not None:
            self.delivery.add_done_callback(lambda _: call())
        elif self.calls is None:
            self.calls = [call]
        else:
            self.calls.append(call)

    def settle(self) -> None:
        """Pass on the functions that waited, now that the record is queued or rejected."""
        calls, self.calls = self.calls or [], None
        for call in calls:
            self.when_done(call)

    def refuse(self, failure: Failure, place: int) -> None:
        """Record that the event loop could not queue the record."""
        self.place = place
        self.failure = failure
        if self.calls is not None:
            self.settle()

    def outcome(self) -> RecordMetadata:
        """Return the metadata or raise the error. Requires `done`."""
        if self.failure is not None:
            raise self.failure.see(self.place)
        assert self.delivery is not None
        return self.delivery.result()


_Record = tuple[PendingDelivery, str, bytes | None, bytes | None, Millis, Sequence[Header], int | None, int]
_Item = Union[_Record, "asyncio.Future[None]"]
"""Record, or a marker future that is done once all records sent before it are queued."""


class SendQueue:
    """Queue of records for the event loop. Any thread may call `put`; the other methods belong to the loop."""

    def __init__(self, core: ProducerCore) -> None:
        self.loop = core.loop
        self._core = core
        self.items: deque[_Item] = deque()
        """Records that wait, and markers."""
        self._woken = False
        self._handing: asyncio.Task[None] | None = None
        self.remembered = False

    def __len__(self) -> int:
        return len(self.items)

    def put(self, record: _Record) -> None:
        """Add a record, which the loop queues soon."""
        self.remember()
        self.items.append(record)
        if not self._woken:
            self._woken = True
            self.loop.call_soon_threadsafe(self._wake)

    def remember(self) -> None:
        """Report this producer if it is not closed, because it has records from now on. Any thread may call it."""
        if not self.remembered:
            self.remembered = True
            watch_unclosed(self)

    async def done(self) -> None:
        """Wait until all records sent so far are queued or rejected."""
        if self.items:
            mark: asyncio.Future[None] = self.loop.create_future()
            self.items.append(mark)
            self._wake()
            await mark

    async def decided(self, record: PendingDelivery) -> RecordMetadata:
        """Wait until the record is written or has failed."""
        if record.delivery is None and record.failure is None:
            await self.done()
        if record.delivery is not None:
            return await record.delivery
        return record.outcome()

    async def flush(self, timeout_s: float | None) -> None:
        """Queue all records sent so far, then flush the core."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.done()
                await self._core.flush(None)
        except TimeoutError:
            detail = f"{self.unwritten()} records are not written after {timeout_s:g} s; the producer still tries"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail) from None

    async def commit(self) -> None:
        """Queue all records sent so far, and commit the transaction."""
        transactions = self._core.transactions
        await self.done()
        await transactions.commit()

    async def abort(self) -> None:
        """Discard the records that are not queued yet, and abort the transaction."""
        transactions = self._core.transactions
        if transactions.state in OPEN:
            self._refuse(TransactionAbortableError(ErrorCode.OPERATION_NOT_ATTEMPTED, "the transaction was aborted"))
        await transactions.abort()

    async def close(self, timeout_s: float | None) -> None:
        """Queue all records sent so far, then close the core. Records not queued in time fail."""
        began = self.loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                await self.done()
        except TimeoutError:
            pass
        finally:
            await self._refuse_all()
            await self._core.close(None if timeout_s is None else max(0.0, began + timeout_s - self.loop.time()))
            unwatch_unclosed(self)

    # -- producers that are not closed

    def unwritten(self) -> int:
        """Return the number of records that are neither written nor failed."""
        return self._core.unwritten() + sum(isinstance(queued, tuple) for queued in list(self.items))

    async def finish(self, timeout_s: float) -> int:
        """Write for up to `timeout_s` seconds, close, and return the number of unwritten records."""
        if self._core.closed:
            return 0
        began = self.loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                await self.done()
        except TimeoutError:
            pass
        left = sum(isinstance(queued, tuple) for queued in self.items)
        lost = await self._core.finish(max(0.0, began + timeout_s - self.loop.time()))
        await self._refuse_all()
        unwatch_unclosed(self)
        return lost + left

    # -- moving records to the core

    def _wake(self) -> None:
        self._woken = False
        if self._handing is None and self.items:
            self._handing = self.loop.create_task(self._hand_over_all(), name="kohort-hand-over")

    async def _hand_over_all(self) -> None:
        queue, append, lock = self.items, self._core.append, self._core.lock
        try:
            while queue:
                item = queue[0]
                if isinstance(item, asyncio.Future):
                    if not item.done():
                        item.set_result(None)
                    queue.popleft()
                    continue
                pending, topic, value, key, timestamp, headers, partition, size = item
                try:
                    with lock:
                        queued = append(topic, value, key, timestamp, headers, partition, size)
                    pending.delivery = delivery_of(queued)
                    if pending.calls is not None:
                        pending.settle()
                except BufferFullError:
                    try:
                        await self._core.ready(topic)
                    except KohortError as problem:
                        if self._core.topics.count(topic) is None:
                            self._refuse(problem, topic)
                        else:  # this record has no room, but the next may have
                            pending.refuse(self._core.failures.add(topic, 1, problem), 0)
                            queue.popleft()
                    continue
                except Exception as problem:  # noqa: BLE001  the delivery raises it
                    pending.refuse(self._core.failures.add(topic, 1, problem), 0)
                queue.popleft()
                if not len(queue) % 1000:
                    await asyncio.sleep(0)
        finally:
            self._handing = None

    def _refuse(self, problem: KohortError, topic: str | None = None) -> None:
        """Fail the records sent to the topic so far, or to all topics.

        Otherwise each of them would wait for max_block_ms.
        """
        kept: list[_Item] = []
        refused: dict[str, list[PendingDelivery]] = {}
        for _ in range(len(self.items)):
            item = self.items.popleft()
            if isinstance(item, tuple) and topic in (None, item[1]):
                refused.setdefault(item[1], []).append(item[0])
            else:
                kept.append(item)
        self.items.extendleft(reversed(kept))
        for name, records in refused.items():
            failure = self._core.failures.add(name, len(records), problem)
            for place, record in enumerate(records):
                record.refuse(failure, place)

    async def _refuse_all(self) -> None:
        if self._handing is not None:
            self._handing.cancel()
            await asyncio.gather(self._handing, return_exceptions=True)
        why = "the producer was closed before the record was written"
        self._refuse(KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, why))
        for mark in self.items:
            if isinstance(mark, asyncio.Future) and not mark.done():
                mark.set_result(None)
