"""`kohort.Producer` for plain threads: records are handed to the loop many at a time, not one call each."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from kohort.client import producer as asyncio_producer
from kohort.client.arguments import seconds
from kohort.client.batches import Delivery, RecordMetadata
from kohort.client.blocking.loop import Face, made
from kohort.client.failures import BufferFullError, ClosedError
from kohort.errors import KohortError
from kohort.model import Millis
from kohort.wire.records import Header

_MOST_HANDED_OVER = 20_000
"""Records that a producer's threads may be ahead of its loop."""


class BlockingDelivery:
    """The fate of one record; `result` waits for it."""

    __slots__ = ("_delivery", "_error", "_producer")

    def __init__(self, producer: "Producer") -> None:
        self._producer = producer
        self._delivery: Delivery | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Whether it is decided."""
        return self._error is not None or (self._delivery is not None and self._delivery.done())

    def result(self) -> RecordMetadata:
        """Where it was written. Raises the KafkaError that kept it from being written."""
        if self._delivery is None and self._error is None:
            self._producer.hand_over()
        if self._error is not None:
            raise self._error
        assert self._delivery is not None
        if self._delivery.done():
            return self._delivery.result()
        return self._producer.wait_for(self._delivery)

    def take(self, delivery: Delivery) -> None:
        """The loop queued the record."""
        self._delivery = delivery

    def fail(self, error: BaseException) -> None:
        """The loop could not queue it."""
        self._error = error


_Waiting = tuple[BlockingDelivery, str, bytes | None, bytes | None, Millis | None, Sequence[Header], int | None]


class Producer(Face):
    """`kohort.Producer` for plain threads; any number of threads may use one."""

    def __init__(self, **options: Any) -> None:
        super().__init__("kohort-producer")
        try:
            self._producer = self._call(made(lambda: asyncio_producer.Producer(**options)))
        except BaseException:
            self._stop()
            raise
        self._queue: deque[_Waiting] = deque()
        self._woken = False
        self._handing: asyncio.Task[None] | None = None

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: Millis | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> BlockingDelivery:
        """Queue a record; waits only while the producer is far behind. See `kohort.Producer.send`."""
        if self._stopped:
            raise ClosedError("the producer is closed.")
        delivery = BlockingDelivery(self)
        self._queue.append((delivery, topic, value, key, timestamp, headers, partition))
        if not self._woken:
            self._woken = True
            self._thread.loop.call_soon_threadsafe(self._wake)
        if len(self._queue) > _MOST_HANDED_OVER:
            self.hand_over()
        return delivery

    def flush(self) -> None:
        """Wait until everything sent so far is written or has failed."""
        self.hand_over()
        self._call(self._producer.flush())

    def partitions_for(self, topic: str) -> int:
        """How many partitions the topic has."""
        return self._call(self._producer.partitions_for(topic))

    def close(self, *, timeout: float | None = None) -> None:
        """Flush, then disconnect. Closing twice is fine."""
        if timeout is not None:
            seconds("timeout", timeout)
        if self._stopped:
            return
        try:
            self.hand_over()
            self._call(self._producer.close(timeout=timeout))
        finally:
            self._stop()

    def hand_over(self) -> None:
        """Wait until the loop has queued all records sent so far."""
        if self._queue or self._handing is not None:
            self._call(self._handed_over())

    def wait_for(self, delivery: Delivery) -> RecordMetadata:
        """Wait until it is decided."""

        async def wait() -> RecordMetadata:
            return await delivery

        return self._call(wait())

    # -- in the loop

    def _wake(self) -> None:
        self._woken = False
        if self._handing is None and self._queue:
            self._handing = self._thread.loop.create_task(self._hand())

    async def _handed_over(self) -> None:
        self._wake()
        if self._handing is not None:
            await asyncio.shield(self._handing)

    async def _hand(self) -> None:
        queue, send = self._queue, self._producer.send_nowait
        try:
            while queue:
                delivery, topic, value, key, timestamp, headers, partition = queue[0]
                try:
                    delivery.take(
                        send(topic, value, key=key, timestamp=timestamp, headers=headers, partition=partition)
                    )
                except BufferFullError:
                    try:
                        await self._producer.ready(topic)
                    except KohortError as problem:
                        delivery.fail(problem)
                        queue.popleft()
                    continue
                except Exception as problem:  # noqa: BLE001  raised again by result
                    delivery.fail(problem)
                queue.popleft()
                if not len(queue) % 1000:
                    await asyncio.sleep(0)
        finally:
            self._handing = None
