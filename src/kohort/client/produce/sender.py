"""Sending of batches as Produce requests, and handling of the responses."""

import asyncio
import logging
import math
from collections import defaultdict
from functools import partial

from kohort.client.net import BrokerConnection, Cluster, EarliestTimer, back_off
from kohort.client.options import ProducerOptions
from kohort.client.produce.accumulator import Accumulator
from kohort.client.produce.batches import NO_OFFSET, BatchedRecord, PartitionQueue
from kohort.client.produce.failed_deliveries import Failures
from kohort.client.produce.producer_id import ProducerIdAssignment
from kohort.client.produce.transactions import Transactions
from kohort.errors import ErrorCode, KafkaError
from kohort.member.transactions import busy_pause_ms
from kohort.requests import ProduceOutcome, ProducerId, produce_request, read_outcomes
from kohort.wire.batches import Codec
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.produce import ProduceRequest, ProduceResponse

_log = logging.getLogger(__name__)

_LEFT_OUT = ProduceOutcome(ErrorCode.UNKNOWN_TOPIC_ID, "the answer lacks it")
_LOST_SEQUENCE = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Errors after which the broker no longer knows the producer's sequence. Only a new producer ID can continue."""

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


class Sender:
    """Sender of the batches in its `accumulator`, each as soon as it may be sent."""

    def __init__(
        self, cluster: Cluster, options: ProducerOptions, failures: Failures, threads: type[BatchedRecord] | None = None
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._acks = {"all": -1, "-1": -1, "1": 1, "0": 0}[str(options.acks)]
        self._codec = Codec[options.compression_type.upper()]
        self._idempotent = options.enable_idempotence and self._acks == -1
        self._numbers = ProducerIdAssignment(self._ask_for_number, options, self._drain_soon, self._unnumbered)
        if threads is None:
            self.accumulator = Accumulator(options, failures, self._drain_soon, self._due_at)
        else:
            self.accumulator = Accumulator(options, failures, self._wake, lambda due_at: self._wake(), threads)
        self.transactions: Transactions | None = None
        if options.transactional_id is not None:
            wake = self._drain_soon if threads is None else self._wake
            self.transactions = Transactions(
                cluster, options, self.accumulator, wake, partial(self.flush, None), failures.forget
            )
        self._woken = False
        self._in_flight: dict[int, set[asyncio.Task[None]]] = defaultdict(set)
        """Requests by broker."""
        self._drain_timer = EarliestTimer(self._drain)
        self._soon: asyncio.Handle | None = None
        self._flushing = 0
        self._closed = False

    # -- interface to the producer

    async def flush(self, timeout_s: float | None) -> bool:
        """Wait up to `timeout_s` seconds for all current batches.

        Return whether all are written or have failed.
        """
        pending = self.accumulator.pending()
        if not pending:
            return True
        self._flushing += 1
        self._drain_soon()
        try:
            _, left = await asyncio.wait(pending, timeout=timeout_s)
            return not left
        finally:
            self._flushing -= 1

    async def close(self) -> None:
        """Cancel requests in flight and fail the remaining batches."""
        self._closed = True
        self._drain_timer.cancel()
        tasks = [task for tasks in self._in_flight.values() for task in tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._numbers.close()
        if self.transactions is not None:
            await self.transactions.close()
        self.accumulator.close()

    # -- scheduling

    def _wake(self) -> None:
        """Check the batches in the event loop soon. Any thread may call it."""
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._woke)

    def _woke(self) -> None:
        self._woken = False  # what changes from here on needs another call
        self._drain()

    def _drain_soon(self) -> None:
        if self._soon is None:
            self._soon = self._loop.call_soon(self._drain)

    def _due_at(self, lingers_until: float) -> None:
        if self._soon is None:
            self._drain_timer.by(lingers_until)

    def _drain(self) -> None:
        """Send every batch that is ready, and schedule the next check of the others."""
        self._soon = None
        if self._closed:
            return
        now = self._loop.time()
        self.accumulator.time_batches()
        ready: dict[int, list[PartitionQueue]] = defaultdict(list)
        later: list[float] = []
        if self.transactions is not None and self.transactions.adds_partitions:
            self.transactions.add_partitions([queue.partition for queue in self.accumulator.queues])
        for queue in list(self.accumulator.queues):
            if queue.in_flight is not None:
                continue
            self._expire(queue, now)
            if not queue.ready(now, flushing=bool(self._flushing), batch_size=self._options.batch_size):
                later += self._when(queue)
                continue
            if self.transactions is not None and not self._may_send(self.transactions, queue):
                if (until := queue.deadline_at) != math.inf:  # else a thread has just opened it, and wakes the loop
                    later.append(until)
                continue
            try:
                ready[self._cluster.leader_of(queue.partition)].append(queue)
            except KafkaError as problem:
                queue.problem = problem
                queue.retry_at = now + self._options.retry_backoff_ms / 1000
                later += self._when(queue)
                if not problem.retriable:
                    self.accumulator.fail_all(queue, problem)
        if ready and self._idempotent and self._producer_id is None:
            self._numbers.ask()
        else:
            for node, queues in ready.items():
                self._send_to(node, queues)
        if later:
            self._drain_timer.by(min(later))

    @staticmethod
    def _may_send(transactions: Transactions, queue: PartitionQueue) -> bool:
        if not transactions.adds_partitions:
            transactions.add_partitions([queue.partition])
        return transactions.may_send(queue.partition)

    def _when(self, queue: PartitionQueue) -> list[float]:
        """Return the time at which a queue that is not ready must be checked again; nothing if it is empty."""
        oldest = queue.waiting[0] if queue.waiting else queue.open
        if oldest is None:
            return []
        at = queue.retry_at if queue.waiting else max(oldest.lingers_until, queue.retry_at)
        at = min(at, oldest.deadline_at)
        return [] if at == math.inf else [at]  # a thread has just opened it, and wakes the loop

    def _expire(self, queue: PartitionQueue, now: float) -> None:
        for batch in self.accumulator.overdue(queue, now):
            why = f": {queue.problem.sentence}" if queue.problem is not None else ""
            detail = f"{batch.partition} did not take it within delivery_timeout_ms{why}"
            if batch.attempts:
                # It may have been written, so it is unknown whether the sequence has a gap.
                self._numbers.discard(queue.producer_id)
            self.accumulator.fail(queue, batch, KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail))

    def _send_to(self, node: int, queues: list[PartitionQueue]) -> None:
        limit = self._options.max_in_flight_requests_per_connection
        at = 0
        while at < len(queues) and len(self._in_flight[node]) < limit:
            size = 0
            some: list[PartitionQueue] = []
            while at < len(queues):
                queue = queues[at]
                size += queue.next_size
                if some and size > self._options.max_request_size:
                    break
                with self.accumulator.lock:
                    self.accumulator.time_batches()
                    queue.take(self._producer_id)
                some.append(queue)
                at += 1
            task = self._loop.create_task(self._send(node, some), name=f"kohort-produce {node}")
            self._in_flight[node].add(task)
            task.add_done_callback(partial(self._sent, node, some))

    def _sent(self, node: int, queues: list[PartitionQueue], task: "asyncio.Task[None]") -> None:
        self._in_flight[node].discard(task)
        if self._closed:
            return
        if task.cancelled():
            # The end of the event loop cancels tasks, perhaps before they start. The batches are
            # sent again with the same sequence numbers.
            for queue in queues:
                queue.put_back(0.0)
        elif (problem := task.exception()) is not None:
            _log.error("sending failed, which is a defect of Kohort", exc_info=problem)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"sending failed: {problem!r}")
            for queue in queues:
                if queue.in_flight is not None:
                    self._give_up(queue, error)
        self._drain_soon()

    @property
    def _producer_id(self) -> ProducerId | None:
        return self._numbers.current if self.transactions is None else self.transactions.producer_id

    # -- one request

    async def _send(self, node: int, queues: list[PartitionQueue]) -> None:
        try:
            connection = await self._cluster.connection(node)
            await connection.drained()
            request = self._request(queues, connection)
            if self._acks == 0:
                connection.post(request)
                answer = None
            else:
                newest = None if self.transactions is None else self.transactions.newest_produce
                answer = await connection.request(request, ProduceResponse, newest=newest)
        except KafkaError as problem:
            for queue in queues:
                self._settle(queue, problem.code, problem)
        else:
            self._answered(queues, answer)

    def _request(self, queues: list[PartitionQueue], connection: BrokerConnection) -> ProduceRequest:
        """Return a request with the in-flight batch of each queue."""
        batches = []
        for queue in queues:
            assert queue.in_flight is not None
            encoded = queue.in_flight.encoded(self._codec, transactional=self.transactions is not None)
            batches.append((queue.partition, encoded))
        sent = [queue.in_flight for queue in queues if queue.in_flight is not None]
        self.accumulator.metrics.sent(sent, connection.metrics, self._loop.time())
        topics = self._cluster.metadata.topics
        return produce_request(
            batches,
            acks=self._acks,
            timeout_ms=self._options.request_timeout_ms,
            topic_id=lambda name: topics[name].topic_id,
            transactional_id=self._options.transactional_id,
        )

    def _answered(self, queues: list[PartitionQueue], answer: ProduceResponse | None) -> None:
        if answer is None:
            for queue in queues:
                self.accumulator.succeed(queue, NO_OFFSET, None)
            return
        outcomes = read_outcomes(answer, self._cluster.metadata.names)
        for queue in queues:
            outcome = outcomes.get(queue.partition, _LEFT_OUT)
            if outcome.code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self.accumulator.succeed(queue, outcome.base_offset, outcome.log_append_time)
            else:
                self._settle(queue, outcome.code, KafkaError(outcome.code, f"{queue.partition}: {outcome.detail}"))

    def _settle(self, queue: PartitionQueue, code: ErrorCode, problem: KafkaError) -> None:
        """Retry or fail the in-flight batch."""
        batch = queue.in_flight
        assert batch is not None
        delay = back_off(self._options, batch.attempts)
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            # KIP-890: the markers of the transaction before are being written, which takes milliseconds.
            delay = min(delay, busy_pause_ms(batch.attempts) / 1000)
        if code in _LEADER_MOVED:
            self._cluster.want_metadata()
        if self.transactions is not None and self.transactions.failed_for_good:
            self._give_up(queue, problem)
            return
        if code in _LOST_SEQUENCE and self._idempotent and self.transactions is None:
            _log.warning("a new producer id is needed: partition=%s %s", queue.partition, problem)
            self._numbers.discard(queue.producer_id)
            batch.attempts = 0
        elif not problem.retriable:
            queue.refused()
            self._give_up(queue, problem)
            return
        queue.problem = problem
        _log.info("again in %d ms: partition=%s %s", delay * 1000, queue.partition, problem)
        now = self._loop.time()
        self.accumulator.metrics.retried(batch.partition.topic, batch.count, now)
        queue.put_back(now + delay)

    def _give_up(self, queue: PartitionQueue, problem: KafkaError) -> None:
        batch = queue.in_flight
        assert batch is not None
        queue.in_flight = None
        self.accumulator.fail(queue, batch, problem)

    # -- producer ID

    async def _ask_for_number(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        return await self._cluster.ask_any(request, InitProducerIdResponse)

    def _unnumbered(self, problem: KafkaError) -> bool:
        """Handle a failed request for a producer ID. Return whether any batch still waits for one.

        A fatal error fails all waiting batches; otherwise expired batches fail.
        """
        now = self._loop.time()
        for queue in list(self.accumulator.queues):
            if not problem.retriable:
                self.accumulator.fail_all(queue, problem)
            elif queue.in_flight is None:
                self._expire(queue, now)
        return bool(self.accumulator.queues)
