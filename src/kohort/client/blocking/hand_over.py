"""Records on their way from the threads that send them to the event loop that queues them, many at a time."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Union

from kohort.client import unclosed
from kohort.client.batches import Delivery, RecordMetadata
from kohort.client.blocking.loop import LoopThread
from kohort.client.failures import BufferFullError
from kohort.client.producer_core import ProducerCore
from kohort.client.undelivered import Failure
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.model import Millis
from kohort.wire.records import Header


class PendingDelivery:
    """The fate of one record: not queued yet, queued, or refused."""

    __slots__ = ("delivery", "failure", "place")

    def __init__(self) -> None:
        self.delivery: Delivery | None = None
        self.failure: Failure | None = None
        self.place = 0
        """Of this record among those of `failure`."""

    def done(self) -> bool:
        """Whether it is decided."""
        return self.failure is not None or (self.delivery is not None and self.delivery.done())

    def refuse(self, failure: Failure, place: int) -> None:
        """The loop could not queue it."""
        self.failure, self.place = failure, place

    def outcome(self) -> RecordMetadata:
        """Once it is decided."""
        if self.failure is not None:
            raise self.failure.see(self.place)
        assert self.delivery is not None
        return self.delivery.result()


_Record = tuple[PendingDelivery, str, bytes | None, bytes | None, Millis, Sequence[Header], int | None, int]
_Item = Union[_Record, "asyncio.Future[None]"]
"""A record, or a mark: it is done when all that was sent before it is queued."""


class HandOver:
    """`put` is for any thread, the rest for the event loop."""

    def __init__(self, thread: LoopThread, core: ProducerCore) -> None:
        self.loop: asyncio.AbstractEventLoop = thread.loop
        self._core = core
        self._queue: deque[_Item] = deque()
        self._woken = False
        self._handing: asyncio.Task[None] | None = None
        self._remembered = False

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, record: _Record) -> None:
        """Have the loop queue it, soon."""
        if not self._remembered:
            self._remembered = True
            unclosed.remember(self)
        self._queue.append(record)
        if not self._woken:
            self._woken = True
            self.loop.call_soon_threadsafe(self._wake)

    async def done(self) -> None:
        """Wait until all that was sent so far is queued or refused."""
        if self._queue:
            mark: asyncio.Future[None] = self.loop.create_future()
            self._queue.append(mark)
            self._wake()
            await mark

    async def decided(self, record: PendingDelivery) -> RecordMetadata:
        """Wait until the brokers decided."""
        if record.delivery is None and record.failure is None:
            await self.done()
        if record.delivery is not None:
            return await record.delivery
        return record.outcome()

    async def flush(self, patience: float | None) -> None:
        """As the core's, of all that was sent so far."""
        began = self.loop.time()
        try:
            async with asyncio.timeout(patience):
                await self.done()
        except TimeoutError:
            detail = f"{self.unwritten()} records are not written after {patience:g} s; the producer still tries"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail) from None
        await self._core.flush(None if patience is None else max(0.0, began + patience - self.loop.time()))

    async def close(self, patience: float | None) -> None:
        """As the core's, of all that was sent so far."""
        began = self.loop.time()
        try:
            async with asyncio.timeout(patience):
                await self.done()
        except TimeoutError:
            pass
        finally:
            await self._refuse_all()
            await self._core.close(None if patience is None else max(0.0, began + patience - self.loop.time()))
            unclosed.forget(self)

    # -- when nobody closes it

    def unwritten(self) -> int:
        """Number of records that are not decided."""
        return self._core.unwritten() + sum(isinstance(one, tuple) for one in list(self._queue))

    async def finish(self, patience: float) -> int:
        """Write for that many seconds, close; the number of records that were not written."""
        if self._core.closed:
            return 0
        began = self.loop.time()
        try:
            async with asyncio.timeout(patience):
                await self.done()
        except TimeoutError:
            pass
        left = sum(isinstance(one, tuple) for one in self._queue)
        lost = await self._core.finish(max(0.0, began + patience - self.loop.time()))
        await self._refuse_all()
        unclosed.forget(self)
        return lost + left

    # -- from queue to queue

    def _wake(self) -> None:
        self._woken = False
        if self._handing is None and self._queue:
            self._handing = self.loop.create_task(self._hand(), name="kohort-hand-over")

    async def _hand(self) -> None:
        queue, append = self._queue, self._core.append
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
                    pending.delivery = append(topic, value, key, timestamp, headers, partition, size)
                except BufferFullError:
                    try:
                        await self._core.ready(topic)
                    except KohortError as problem:
                        if self._core.topics.count(topic) is None:
                            self._refuse(problem, topic)
                        else:  # no room for this record; there may be some for the next
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
        """Give up what was sent to that topic so far, or all: without it each record would wait for max_block_ms."""
        kept: list[_Item] = []
        refused: dict[str, list[PendingDelivery]] = {}
        for _ in range(len(self._queue)):
            item = self._queue.popleft()
            if isinstance(item, tuple) and topic in (None, item[1]):
                refused.setdefault(item[1], []).append(item[0])
            else:
                kept.append(item)
        self._queue.extendleft(reversed(kept))
        for name, records in refused.items():
            failure = self._core.failures.add(name, len(records), problem)
            for place, one in enumerate(records):
                one.refuse(failure, place)

    async def _refuse_all(self) -> None:
        if self._handing is not None:
            self._handing.cancel()
            await asyncio.gather(self._handing, return_exceptions=True)
        why = "the producer was closed before the record was written"
        self._refuse(KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, why))
        for mark in self._queue:
            if isinstance(mark, asyncio.Future) and not mark.done():
                mark.set_result(None)
