"""A producer's unacknowledged records: the partitions that have some, and the memory that they use."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kohort.client.failures import BufferFullError, ClosedError
from kohort.client.loops import check_loop
from kohort.client.options import ProducerOptions
from kohort.client.produce.batches import Batch, BatchedRecord, Delivery, PartitionQueue
from kohort.client.produce.buffer_memory import BufferMemory
from kohort.client.produce.failed_deliveries import Failures
from kohort.client.produce.producer_metrics import ProducerMetrics
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.model import Millis
from kohort.wire.batches import Header

_BATCH_OVERHEAD = 80


class Accumulator:
    """Accumulator of a producer's records.

    `on_full` is called when a batch may be sent before it has lingered; `on_open` is called with
    the loop time at which a new batch is due.

    With `threads`, the class of their deliveries, other threads than the event loop's append while
    they hold `lock`. Both functions may then be called by any thread.
    """

    def __init__(
        self,
        options: ProducerOptions,
        failures: Failures,
        on_full: Callable[[], None],
        on_open: Callable[[float], None],
        threads: type[BatchedRecord] | None = None,
    ) -> None:
        self.queues: dict[PartitionQueue, None] = {}
        """Queues that hold a batch, in the order in which they were added."""
        self.metrics = ProducerMetrics(options.sampling)
        self._options = options
        self._failures = failures
        self.on_full = on_full
        self._on_open = on_open
        self._loop = asyncio.get_running_loop()
        self._threads = threads
        self.lock = threading.RLock()
        """Lock that is held while the queues change."""
        self.delivery: Any = threads or Delivery
        self._untimed: deque[Batch] = deque()
        self.memory = BufferMemory(options.buffer_memory)
        self._limits = (("max_request_size", options.max_request_size), ("buffer_memory", options.buffer_memory))
        self._batch_size, self._request_size = options.batch_size, options.max_request_size
        self._closed = False
        self.on_failed: Callable[[KohortError], None] | None = None
        """Function called in the event loop with the error of each batch that fails."""

    def append(
        self,
        queue: PartitionQueue,
        timestamp: Millis,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        size: int,
    ) -> Delivery:
        """Add a record of at most `size` bytes.

        Raises BufferFullError, or MESSAGE_TOO_LARGE for a record that can never be sent.
        """
        # The record is encoded later, and the caller may change a bytearray until then.
        if type(value) is not bytes and value is not None:
            value = bytes(value)
        if type(key) is not bytes and key is not None:
            key = bytes(key)
        memory, batch = self.memory, queue.open
        if batch is None or size > memory.free or batch.filled + size > self._request_size:
            batch = self._batch_with_room(queue, size)
        if headers:
            index = self._append_with_headers(queue, batch, timestamp, key, value, headers)
        else:
            index = batch.builder.defer(timestamp, key, value)
        self._grown(queue, batch, size, size)
        delivery: Delivery = self.delivery(batch, index)
        return delivery

    def _append_with_headers(
        self,
        queue: PartitionQueue,
        batch: Batch,
        timestamp: Millis,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
    ) -> int:
        index = batch.builder.count
        try:
            batch.builder.append(timestamp, key, value, headers)
        except Exception:
            # A batch that was opened for a record that cannot be encoded must not be sent empty.
            if not index:
                queue.open = None
                self._release(queue, batch)
            raise
        return index

    def append_many(
        self,
        queue: PartitionQueue,
        timestamp: Millis,
        keys: Sequence[bytes] | None,
        values: Sequence[bytes],
        size: int,
    ) -> Delivery:
        """Add records without headers to one batch, and return the delivery of the last one.

        They have no keys if `keys` is None. Raises as `append` does if they do not fit.
        """
        batch = self._batch_with_room(queue, size)
        builder = batch.builder
        if keys is None:
            builder.append_values(timestamp, values)
        else:
            builder.append_pairs(timestamp, keys, values)
        self._grown(queue, batch, size, size // len(values))
        return Delivery(batch, builder.count - 1)

    def _grown(self, queue: PartitionQueue, batch: Batch, size: int, largest: int) -> None:
        batch.largest = max(batch.largest, largest)
        before = batch.filled
        batch.filled = before + size
        self.memory.free -= size
        if before < self._batch_size <= batch.filled and queue.in_flight is None:
            self.on_full()

    def _batch_with_room(self, queue: PartitionQueue, size: int) -> Batch:
        if size > self.memory.free:
            self.check_size(size)
            self.memory.want(size)
            raise BufferFullError("the buffer is full: await ready(topic) before sending more.")
        batch = queue.open
        if batch is not None and batch.filled + size > self._request_size:
            batch.measure()
        if batch is not None and batch.filled + size > self._request_size:
            queue.waiting.append(batch)
            batch = queue.open = None
        if batch is None:
            batch = self._open(queue, size)
        return batch

    def _open(self, queue: PartitionQueue, size: int) -> Batch:
        if self._closed:
            raise ClosedError("the producer is closed.")
        if self._threads is None:
            check_loop(self._loop, "producer")
        self.check_size(size)
        batch = Batch(queue.partition, self._loop)
        queue.open = batch
        self.queues[queue] = None
        if self._threads is None:
            self._time(batch)
        else:
            self._untimed.append(batch)  # other threads cannot ask for the loop's time
        self._on_open(batch.lingers_until)
        return batch

    def time_batches(self) -> None:
        """Set the times of batches that other threads have opened."""
        while self._untimed:
            self._time(self._untimed.popleft())

    def _time(self, batch: Batch) -> None:
        now = batch.opened_at = self._loop.time()
        batch.lingers_until = now + self._options.linger_ms / 1000
        batch.deadline_at = now + self._options.delivery_timeout_ms / 1000

    def check_size(self, size: int) -> None:
        """Raise MESSAGE_TOO_LARGE for a record that can never be sent. Safe to call from any thread."""
        for name, largest in self._limits:
            if size > largest - _BATCH_OVERHEAD:
                detail = f"a record of {size} bytes does not fit into {name} ({largest})"
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, detail)

    async def room(self) -> None:
        """Wait until a quarter of the buffer is free, or enough for the largest record that was refused."""
        await self.memory.room()

    @property
    def free(self) -> int:
        """Bytes of the buffer that are free."""
        return self.memory.free

    @property
    def waiting(self) -> int:
        """Number of tasks that wait for room."""
        return self.memory.waiting

    def pending(self) -> "list[asyncio.Future[None]]":
        """Return the futures of all current batches. Each is done when its batch is written or has failed."""
        with self.lock:
            return [batch.done for queue in self.queues for batch in queue.batches()]

    def unwritten(self) -> int:
        """Return the number of records that are neither written nor failed."""
        with self.lock:
            return sum(batch.count for queue in self.queues for batch in queue.batches())

    # -- completion

    def succeed(self, queue: PartitionQueue, base_offset: int, log_append_time: Millis | None) -> None:
        """Complete the in-flight batch as written."""
        with self.lock:
            batch = queue.in_flight
            assert batch is not None
            queue.in_flight = queue.problem = None
            self._release(queue, batch)
            batch.succeed(base_offset, log_append_time)

    def fail(self, queue: PartitionQueue, batch: Batch, problem: KohortError) -> None:
        """Fail a batch that has been removed from the queue."""
        with self.lock:
            self._release(queue, batch)
            self._fail(batch, problem)

    def fail_all(self, queue: PartitionQueue, problem: KohortError) -> None:
        """Fail all waiting batches. The response to an in-flight batch decides that one."""
        with self.lock:
            for batch in queue.take_waiting():
                self.memory.free += batch.size
                self._fail(batch, problem)
            if queue.in_flight is None:
                self.queues.pop(queue, None)
            self.memory.wake()

    def discard(self, problem: KohortError, *, retries: bool) -> None:
        """Fail the batches that were never sent and, with `retries`, those that wait to be sent again."""
        with self.lock:
            for queue in list(self.queues):
                for batch in queue.take_waiting():
                    if batch.attempts and not retries:
                        queue.waiting.append(batch)
                        continue
                    self.memory.free += batch.size
                    self._fail(batch, problem)
                if not queue.waiting and queue.in_flight is None:
                    self.queues.pop(queue, None)
            self.memory.wake()

    def _fail(self, batch: Batch, problem: KohortError) -> None:
        if not batch.done.done():
            self.metrics.failed(batch.partition.topic, batch.count, self._loop.time())
            batch.fail(self._failures.add(batch.partition.topic, batch.count, problem))
            if self.on_failed is not None:
                self.on_failed(problem)

    def overdue(self, queue: PartitionQueue, now: float) -> list[Batch]:
        """Remove and return batches that waited for delivery_timeout_ms; the caller fails them."""
        with self.lock:
            found: list[Batch] = []
            if queue.open is not None and queue.open.deadline_at <= now:
                queue.waiting.append(queue.open)
                queue.open = None
            while queue.waiting and queue.waiting[0].deadline_at <= now:
                found.append(queue.waiting.popleft())
            return found

    def close(self) -> None:
        """Fail the remaining batches and reject new records."""
        with self.lock:
            self._closed = True
            error = KafkaError(
                ErrorCode.OPERATION_NOT_ATTEMPTED, "the producer was closed before the record was written"
            )
            for queue in list(self.queues):
                for batch in queue.batches():
                    self._fail(batch, error)
                queue.take_waiting()
                queue.in_flight = None
            self.queues.clear()
            self.memory.close()

    def _release(self, queue: PartitionQueue, batch: Batch) -> None:
        self.memory.free += batch.size
        if not queue.waiting and queue.open is None and queue.in_flight is None:
            self.queues.pop(queue, None)
        self.memory.wake()
