"""From batches to Produce requests, and what their answers mean."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence

from kohort.client.alarm import Alarm
from kohort.client.batches import NO_OFFSET, Batch, Delivery, PartitionQueue
from kohort.client.cluster import Cluster
from kohort.client.failures import BufferFullError, ClosedError
from kohort.client.memory import BufferMemory
from kohort.client.numbering import Numbering
from kohort.client.options import ProducerOptions
from kohort.client.produces import LEFT_OUT, outcomes_of, produce_request
from kohort.errors import ErrorCode, KafkaError
from kohort.model import Millis
from kohort.wire.produce import ProduceResponse
from kohort.wire.records import Codec, Header

_log = logging.getLogger(__name__)

_LOST_SEQUENCE = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""The broker no longer knows how far this producer had come; only a new producer id can go on."""

_LEADER_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NETWORK_EXCEPTION,
    }
)

_BATCH_OVERHEAD = 80


class Sender:
    """Owns the buffer memory and all batches of a producer."""

    def __init__(self, cluster: Cluster, options: ProducerOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._acks = {"all": -1, "-1": -1, "1": 1, "0": 0}[str(options.acks)]
        self._codec = Codec[options.compression_type.upper()]
        self._idempotent = options.enable_idempotence and self._acks == -1
        self._numbers = Numbering(cluster, options, self._drain_soon, self._unnumbered)
        self._memory = BufferMemory(options.buffer_memory)
        self._active: dict[PartitionQueue, None] = {}
        """Queues that hold a batch, in the order in which they came."""
        self._in_flight: dict[int, int] = defaultdict(int)
        self._tasks: set[asyncio.Task[None]] = set()
        self._alarm = Alarm(self._drain)
        self._soon: asyncio.Handle | None = None
        self._flushing = 0
        self._closed = False

    # -- gathering

    def append(
        self,
        queue: PartitionQueue,
        timestamp: Millis,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        size: int,
    ) -> Delivery:
        """Add a record. Raises BufferFullError, or MESSAGE_TOO_LARGE for one that can never be sent."""
        if size > self._memory.free:
            if size > self._options.buffer_memory:
                raise self._too_large(size)
            raise BufferFullError("the buffer is full: await ready(topic) before sending on.")
        batch = queue.open
        if batch is not None and batch.builder.size + size > self._options.max_request_size:
            queue.waiting.append(batch)
            batch = queue.open = None
        if batch is None:
            batch = self._open(queue, size)
        builder = batch.builder
        try:
            builder.append(timestamp, key, value, headers)
        except Exception:
            # The record is not of bytes; a batch that was opened for it alone must not go out empty.
            if not builder.count:
                queue.open = None
                self._release(queue, batch)
            raise
        batch.size += size
        self._memory.free -= size
        if builder.size >= self._options.batch_size and queue.in_flight is None and self._soon is None:
            self._soon = self._loop.call_soon(self._drain)
        return Delivery(batch, builder.count - 1)

    def _open(self, queue: PartitionQueue, size: int) -> Batch:
        if self._closed:
            raise ClosedError("the producer is closed.")
        if size > self._options.max_request_size - _BATCH_OVERHEAD:
            raise self._too_large(size)
        now = self._loop.time()
        batch = Batch(
            queue.partition, now + self._options.linger_ms / 1000, now + self._options.delivery_timeout_ms / 1000
        )
        queue.open = batch
        self._active[queue] = None
        if self._soon is None:
            self._alarm.by(batch.lingers_until)
        return batch

    def _too_large(self, size: int) -> KafkaError:
        detail = f"a record of {size} bytes is larger than max_request_size ({self._options.max_request_size})"
        return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, detail)

    async def room(self) -> None:
        """Wait until a good part of the buffer is free."""
        await self._memory.room()

    async def flush(self) -> None:
        """Wait until all batches that there are now are decided."""
        pending = [batch.done for queue in self._active for batch in queue.batches()]
        if not pending:
            return
        self._flushing += 1
        self._drain_soon()
        try:
            await asyncio.wait(pending)
        finally:
            self._flushing -= 1

    async def close(self) -> None:
        """Fail what is left, and end."""
        self._closed = True
        self._alarm.cancel()
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._numbers.close()
        error = KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, "the producer was closed before the record was written")
        for queue in list(self._active):
            for batch in queue.batches():
                batch.fail(error)
        self._active.clear()
        self._memory.close()

    # -- when to send

    def _drain_soon(self) -> None:
        if self._soon is None and not self._closed:
            self._soon = self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        """Send whatever may be sent now, and see to it that the rest is looked at in time."""
        self._soon = None
        now = self._loop.time()
        ready: dict[int, list[PartitionQueue]] = defaultdict(list)
        look_again = now + self._options.metadata_max_age_ms / 1000
        for queue in list(self._active):
            if queue.in_flight is not None:
                continue
            self._expire(queue, now)
            if not queue.ready(now, flushing=self._flushing > 0, batch_size=self._options.batch_size):
                look_again = min(look_again, self._when(queue, now))
                continue
            try:
                ready[self._cluster.leader_of(queue.partition)].append(queue)
            except KafkaError as problem:
                queue.retry_at = now + self._options.retry_backoff_ms / 1000
                look_again = min(look_again, queue.retry_at)
                if not problem.retriable:
                    self._fail_all(queue, problem)
        if ready and self._idempotent and self._numbers.current is None:
            self._numbers.ask()
        else:
            for node, queues in ready.items():
                self._send_to(node, queues)
        if self._active and not self._closed:
            self._alarm.by(look_again)

    def _when(self, queue: PartitionQueue, now: float) -> float:
        """When a queue that is not ready is to be looked at again."""
        oldest = queue.waiting[0] if queue.waiting else queue.open
        if oldest is None:
            return now + 1.0
        at = queue.retry_at if queue.waiting else max(oldest.lingers_until, queue.retry_at)
        return min(at, oldest.deadline_at)

    def _expire(self, queue: PartitionQueue, now: float) -> None:
        if queue.open is not None and queue.open.deadline_at <= now:
            queue.waiting.append(queue.open)
            queue.open = None
        while queue.waiting and queue.waiting[0].deadline_at <= now:
            batch = queue.waiting.popleft()
            detail = f"{batch.count} records for {batch.partition} were not written within delivery_timeout_ms"
            if batch.attempts:
                # It may have been written: the sequence has a hole or not, nobody knows.
                self._new_number(queue)
            self._finish(queue, batch, KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail))

    def _send_to(self, node: int, queues: list[PartitionQueue]) -> None:
        limit = self._options.max_in_flight_requests_per_connection
        at = 0
        while at < len(queues) and self._in_flight[node] < limit:
            size = 0
            some: list[PartitionQueue] = []
            while at < len(queues) and (not some or size < self._options.max_request_size):
                batch = queues[at].take(self._numbers.current)
                size += batch.size
                some.append(queues[at])
                at += 1
            self._in_flight[node] += 1
            task = self._loop.create_task(self._send(node, some), name=f"kohort-produce {node}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    # -- one request

    async def _send(self, node: int, queues: list[PartitionQueue]) -> None:
        try:
            connection = await self._cluster.connection(node)
            await connection.drained()
            request = produce_request(queues, self._cluster.metadata, self._options, self._acks, self._codec)
            if self._acks == 0:
                connection.post(request)
                answer = None
            else:
                answer = await connection.request(request, ProduceResponse)
        except KafkaError as problem:
            for queue in queues:
                self._settle(queue, problem.code, problem)
        else:
            self._answered(queues, answer)
        finally:
            self._in_flight[node] -= 1
            self._drain_soon()

    def _answered(self, queues: list[PartitionQueue], answer: ProduceResponse | None) -> None:
        if answer is None:
            for queue in queues:
                self._succeed(queue, NO_OFFSET, None)
            return
        outcomes = outcomes_of(answer, self._cluster.metadata)
        for queue in queues:
            outcome = outcomes.get(queue.partition, LEFT_OUT)
            if outcome.code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._succeed(queue, outcome.base_offset, outcome.log_append_time)
            else:
                self._settle(queue, outcome.code, KafkaError(outcome.code, f"{queue.partition}: {outcome.detail}"))

    def _succeed(self, queue: PartitionQueue, base_offset: int, log_append_time: Millis | None) -> None:
        batch = queue.in_flight
        assert batch is not None
        queue.in_flight = None
        self._release(queue, batch)
        batch.succeed(base_offset, log_append_time)

    def _settle(self, queue: PartitionQueue, code: ErrorCode, problem: KafkaError) -> None:
        """Send the batch under way again, or give it up."""
        batch = queue.in_flight
        assert batch is not None
        now = self._loop.time()
        if code in _LEADER_MOVED:
            self._cluster.want_metadata()
        if code in _LOST_SEQUENCE and self._idempotent:
            _log.warning("a new producer id is needed: partition=%s %s", queue.partition, problem)
            self._new_number(queue)
            batch.attempts = 0
        elif not problem.retriable:
            queue.refused()
            queue.in_flight = None
            _log.error("not written: partition=%s records=%d %s", queue.partition, batch.count, problem)
            self._finish(queue, batch, problem)
            return
        delay = min(
            self._options.retry_backoff_ms * 2 ** min(max(batch.attempts, 1) - 1, 16),
            self._options.retry_backoff_max_ms,
        )
        _log.info("again in %d ms: partition=%s %s", delay, queue.partition, problem)
        queue.put_back(now + delay / 1000)

    def _fail_all(self, queue: PartitionQueue, problem: KafkaError) -> None:
        for batch in queue.batches():
            batch.fail(problem)
            self._memory.free += batch.size
        queue.waiting.clear()
        queue.open = None
        self._active.pop(queue, None)
        self._memory.wake()

    def _finish(self, queue: PartitionQueue, batch: Batch, problem: KafkaError) -> None:
        self._release(queue, batch)
        batch.fail(problem)

    def _release(self, queue: PartitionQueue, batch: Batch) -> None:
        self._memory.free += batch.size
        if not queue.waiting and queue.open is None:
            self._active.pop(queue, None)
        self._memory.wake()

    # -- the producer id

    def _new_number(self, queue: PartitionQueue) -> None:
        """Number this queue's next batches anew, under another producer id."""
        self._numbers.discard(queue.producer_id)
        queue.producer_id = None

    def _unnumbered(self, problem: KafkaError) -> bool:
        """There is no producer id now: give up what that ends; whether anything still waits for one."""
        now = self._loop.time()
        for queue in list(self._active):
            if not problem.retriable:
                self._fail_all(queue, problem)
            elif queue.in_flight is None:
                self._expire(queue, now)
        return bool(self._active)
