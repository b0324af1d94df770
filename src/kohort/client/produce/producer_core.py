"""Producer core shared by `kohort.Producer` and `kohort.blocking.Producer`."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from time import time_ns
from typing import Any

from kohort.client.failures import BufferFullError, ClosedError
from kohort.client.loops import check_loop
from kohort.client.metrics import Document, MetricName, MetricValue, Report, StatisticsTimer
from kohort.client.net import Cluster, run_to_end
from kohort.client.options import ProducerOptions
from kohort.client.produce import unclosed
from kohort.client.produce.batches import BatchedRecord, Delivery
from kohort.client.produce.failed_deliveries import Failures
from kohort.client.produce.producer_statistics import producer_document
from kohort.client.produce.producer_topics import ProducerTopics
from kohort.client.produce.record_checks import check_partition
from kohort.client.produce.sender import Sender
from kohort.client.produce.serialization import Serialization
from kohort.client.produce.transactions import Transactions
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.member.transactions import TransactionStateError
from kohort.model import Millis
from kohort.wire.batches import Header


class ProducerCore:
    """Core of a producer, bound to the event loop in which it was created.

    With `keep`, the records of a producer that its owner did not close are written when the loop or
    the interpreter ends. With `threads`, the class of their deliveries, other threads may call
    `append` while they hold `lock`.
    """

    def __init__(
        self, options: ProducerOptions, *, keep: bool = True, threads: type[BatchedRecord] | None = None
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.cluster = Cluster(options)
        self.failures = Failures()
        self.closed = False
        self._options = options
        self.serialization = Serialization(options.key_serializer, options.value_serializer)
        self._sender = Sender(self.cluster, options, self.failures, threads)
        self._gathered = self._sender.accumulator
        self.metrics = self._gathered.metrics
        self.lock = self._gathered.lock
        self.topics = ProducerTopics(self.cluster, options, self.lock)
        self._delivery: Any = self._gathered.delivery
        self._known, self._append = self.topics.known, self._gathered.append
        self._memory = self._gathered.memory
        self._batch_size, self._request_size = options.batch_size, options.max_request_size
        self._statistics: StatisticsTimer | None = None
        if options.on_statistics is not None:
            self.cluster.metrics.sampled = self.metrics.sampled = True
            every_s = options.statistics_interval_ms / 1000
            self._statistics = StatisticsTimer(
                "producer", options.client_id, every_s, options.on_statistics, self._document
            )
        self._transactions = self._sender.transactions
        if self._transactions is not None:
            # Producers without transactions do not pay for the check of each record.
            self.append = self._checked(self.append)  # type: ignore[method-assign]
            self.append_values = self._checked(self.append_values)  # type: ignore[method-assign]
            self.append_pairs = self._checked(self.append_pairs)  # type: ignore[method-assign]
        self._keeps = keep
        self._keeper: asyncio.Task[None] | None = None

    def append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        timestamp: Millis | None,
        headers: Sequence[Header],
        partition: int | None,
        size: int,
    ) -> Delivery:
        """Queue a record of `size` bytes. Raises BufferFullError, also while the topic is not known."""
        known = self._known.get(topic)
        if known is None:
            raise BufferFullError(f"the partitions of {topic} are not known yet: await ready({topic!r}) first.")
        partitioner = known.partitioner
        if partition is not None:
            partition = check_partition(topic, partition, partitioner.count)
        elif key is None and partitioner.sticky_left > 0:  # as `choose`
            partition = partitioner.sticky
            partitioner.sticky_left -= size
        else:
            partition = partitioner.choose(key, size)
        if timestamp is None:
            timestamp = time_ns() // 1_000_000
        queue = known.queues[partition]
        batch, memory = queue.open, self._memory
        if batch is not None and not headers and type(value) is bytes and (key is None or type(key) is bytes):
            # Does what `Accumulator.append` does, without the call, for a record that needs nothing else.
            before = batch.filled
            after = before + size
            if after <= self._request_size and size <= memory.free:
                batch.filled = after
                if size > batch.largest:
                    batch.largest = size
                memory.free -= size
                if before < self._batch_size <= after and queue.in_flight is None:
                    self._gathered.on_full()
                delivery: Delivery = self._delivery(batch, batch.builder.defer(timestamp, key, value))
                return delivery
        return self._append(queue, timestamp, key, value, headers, size)

    def append_values(self, topic: str, values: Sequence[bytes], partition: int | None, size: int) -> Delivery:
        """Queue records that have only a value, of `size` bytes in total, as `append` does. They share a partition."""
        known = self._known.get(topic)
        if known is None:
            raise BufferFullError(f"the partitions of {topic} are not known yet: await ready({topic!r}) first.")
        if partition is None:
            partition = known.partitioner.choose(None, size)
        else:
            partition = check_partition(topic, partition, known.partitioner.count)
        return self._gathered.append_many(known.queues[partition], time_ns() // 1_000_000, None, values, size)

    def append_pairs(
        self, topic: str, keys: Sequence[bytes], values: Sequence[bytes], partition: int, size: int
    ) -> Delivery:
        """Queue records to a partition, as `append_values` does. The topic must be known."""
        queue = self._known[topic].queues[partition]
        return self._gathered.append_many(queue, time_ns() // 1_000_000, keys, values, size)

    def _checked(self, append: Callable[..., Delivery]) -> Callable[..., Delivery]:
        """Return `append` for records of transactions: a record that is not queued makes its transaction fail."""
        transactions = self.transactions

        def checked(*record: Any) -> Delivery:
            transactions.check_open()
            try:
                return append(*record)
            except KafkaError as problem:
                self.record_failed(problem)
                raise

        return checked

    @property
    def transactions(self) -> Transactions:
        """Transactions of a producer with a transactional_id. Raises TransactionStateError without one."""
        if self._transactions is None:
            raise TransactionStateError("the producer has no transactions: give it a transactional_id.")
        return self._transactions

    def check_open(self) -> None:
        """Raise an error unless records may be sent now. Any thread may call it."""
        if self._transactions is not None:
            self._transactions.check_open()

    def record_failed(self, problem: KohortError) -> None:
        """Make the transaction fail, if there is one, because a record of it is not written. Any thread may call it."""
        if self._transactions is not None:
            if threading.get_ident() == self._thread:
                self._transactions.record_failed(problem)
            else:
                self.loop.call_soon_threadsafe(self._transactions.record_failed, problem)

    def place_keys(self, topic: str, keys: Sequence[bytes]) -> dict[int, list[int]]:
        """Return the indexes of the keys by partition, in their order. The topic must be known."""
        partitioner = self._known[topic].partitioner
        placed: dict[int, list[int]] = {}
        for index, key in enumerate(keys):
            placed.setdefault(partitioner.choose(key, 0), []).append(index)
        return placed

    def check_size(self, size: int) -> None:
        """Raise MESSAGE_TOO_LARGE for a record that can never be sent. Safe to call from any thread."""
        try:
            self._gathered.check_size(size)
        except KafkaError as problem:
            self.record_failed(problem)
            raise

    async def ready(self, topic: str) -> None:
        """Wait until the topic's partitions are known and the buffer has room.

        Raises KafkaError after max_block_ms.
        """
        check_loop(self.loop, "producer")
        if self.closed:
            raise ClosedError("the producer is closed.")
        try:
            async with asyncio.timeout(self._options.max_block_ms / 1000):
                self._keep()
                await self._found(topic)
                await self._room()
        except TimeoutError:
            refused = self.topics.refusal(topic)
            if refused is not None:
                self.record_failed(refused)
                raise refused from None
            if topic in self.topics.known:
                self.metrics.exhausted.add(1, self.loop.time())
                detail = f"no room for a record to {topic} within max_block_ms: the brokers take records too slowly"
            else:
                why = self.cluster.problem.sentence if self.cluster.problem else "no broker answered in time"
                detail = f"the partitions of {topic} were not found within max_block_ms: {why}"
            late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail)
            self.record_failed(late)
            raise late from None
        except KafkaError as problem:
            self.record_failed(problem)
            raise

    async def partitions_for(self, topic: str) -> int:
        """Return the topic's partition count. Raises KafkaError after max_block_ms."""
        check_loop(self.loop, "producer")
        if self.closed:
            raise ClosedError("the producer is closed.")
        self._keep()  # from now on `append` accepts records for the topic
        await self._found(topic)
        return self.topics.known[topic].partitioner.count

    async def _found(self, topic: str) -> None:
        if topic in self.topics.known:
            return
        began = self.loop.time()
        try:
            await self.topics.find(topic)
        finally:
            now = self.loop.time()
            self.metrics.metadata_waits.add(now - began, now)

    async def _room(self) -> None:
        began = self.loop.time()
        try:
            await self._gathered.room()
        finally:
            now = self.loop.time()
            self.metrics.buffer_waits.add(now - began, now)

    def report(self) -> dict[MetricName, MetricValue]:
        """Return the metrics of the producer."""
        report = Report(self._options.client_id, self.loop.time())
        self.metrics.report(report, self.cluster.metrics)
        for name, description, value in (
            ("buffer-available-bytes", "Bytes of the buffer that are free.", self._gathered.free),
            ("buffer-total-bytes", "Size of the buffer, in bytes.", self._options.buffer_memory),
            ("waiting-threads", "Number of tasks that wait for room in the buffer.", self._gathered.waiting),
            ("requests-in-flight", "Number of requests without a response.", self.cluster.in_flight),
            ("metadata-age", "Age of the metadata, in seconds; NaN before the first.", self.cluster.metadata_age),
        ):
            report.add("producer-metrics", name, description, float(value))
        self.cluster.report(report, "producer")
        return report.finished()

    def _document(self, now: float) -> Document:
        return producer_document(self.cluster, now, self._options, self._gathered, self.topics.known)

    def unwritten(self) -> int:
        """Return the number of records that are neither written nor failed."""
        return self._gathered.unwritten()

    async def flush(self, timeout_s: float | None) -> None:
        """Wait until every record queued so far is written or has failed.

        Raises KafkaError after `timeout_s` seconds, and DeliveryFailedError for unseen failures
        since the last flush.
        """
        check_loop(self.loop, "producer")
        began = self.loop.time()
        flushed = await self._sender.flush(timeout_s)
        now = self.loop.time()
        self.metrics.flushes.add(now - began, now)
        if not flushed:
            detail = f"{self.unwritten()} records are not written after {timeout_s:g} s; the producer still tries"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail)
        self.failures.raise_unseen()

    async def close(self, timeout_s: float | None) -> None:
        """Send queued records for up to `timeout_s` seconds, fail the rest and disconnect.

        None sends for as long as delivery_timeout_ms allows.
        """
        if self.closed:
            return
        check_loop(self.loop, "producer")
        self.closed = True
        try:
            if self._transactions is not None:
                await self._transactions.leave(timeout_s)
            await self._sender.flush(timeout_s)
        finally:
            await run_to_end(self._clean_up())

    async def finish(self, timeout_s: float) -> int:
        """Close a producer that its owner did not close, and return the number of unwritten records."""
        if self.closed:
            return 0
        self.closed = True
        if self._transactions is not None:
            await self._transactions.leave(timeout_s)
        await self._sender.flush(timeout_s)
        lost = self.unwritten()
        self.failures.hand_over()
        await self._clean_up()
        return lost

    async def _clean_up(self) -> None:
        if self._statistics is not None:
            self._statistics.close()
        unclosed.unwatch_unclosed(self)
        if self._keeper is not None and self._keeper is not asyncio.current_task():
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await self.topics.close()
        await self._sender.close()
        await self.cluster.close()
        self.failures.close()

    # -- when the event loop ends before `close`

    def _keep(self) -> None:
        if self._keeps and self._keeper is None:
            unclosed.watch_unclosed(self)
            self._keeper = self.loop.create_task(self._until_the_loop_ends(), name="kohort-unclosed-producer")

    async def _until_the_loop_ends(self) -> None:
        """Finish the producer when `asyncio.run` cancels all tasks before it closes the loop.

        `asyncio.run` waits for cancelled tasks that continue.
        """
        try:
            await self.loop.create_future()
        except asyncio.CancelledError:
            if self.closed:
                raise
            unclosed.report(await self.finish(unclosed.FINISH_TIMEOUT_S))
