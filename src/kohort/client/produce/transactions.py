"""Transactions of one producer: the driver of its state machine in one event loop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

from kohort.client.metrics import Measurements
from kohort.client.net import BrokerConnection, Cluster, FailureLog
from kohort.client.options import ProducerOptions
from kohort.client.produce.accumulator import Accumulator
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.member import OffsetAndMetadata
from kohort.member.transactions import (
    PRODUCE_IN_VERSION_1,
    Actions,
    ConsumerGroupMetadata,
    Coordinator,
    ProducerFencedError,
    Send,
    TransactionalProducer,
    TransactionConfig,
    TransactionState,
    TransactionStateError,
    TransactionTimeoutError,
)
from kohort.model import Millis, TopicPartition
from kohort.requests import ProducerId
from kohort.wire.codec import EncodeError
from kohort.wire.messages.init_producer_id import InitProducerIdRequest

_log = logging.getLogger(__name__)

_numbers = count(1)

_BUMPS_EPOCHS_FROM = 3
"""Version of InitProducerId with the producer's own ID and epoch (KIP-360)."""

_FEATURE = "transaction.version"


class Transactions:
    """Transactions of a producer whose records are in `accumulator`.

    `wake` sends batches that have become ready, `flush` waits for all batches, and `forget` marks the
    failures of records as seen.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        accumulator: Accumulator,
        wake: Callable[[], None],
        flush: Callable[[], Awaitable[object]],
        forget: Callable[[], None],
    ) -> None:
        assert options.transactional_id is not None
        self._machine = TransactionalProducer(
            TransactionConfig(
                options.transactional_id,
                options.transaction_timeout_ms,
                options.retry_backoff_ms,
                options.retry_backoff_max_ms,
            )
        )
        self._cluster = cluster
        self._options = options
        self._accumulator = accumulator
        self._metrics = accumulator.metrics
        accumulator.on_failed = self.record_failed
        self._wake = wake
        self._flush = flush
        self._forget = forget
        self._loop = asyncio.get_running_loop()
        self._purpose = f"transactions {next(_numbers)}"
        self._connections: dict[Coordinator, BrokerConnection] = {}
        self._calls: dict[int, asyncio.Future[None]] = {}
        self._last_call = 0
        self._unfinished: tuple[str, asyncio.Future[None]] | None = None
        """Method whose result the application does not have, and its result."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._discarding = False
        self._closed = False
        self._coordinator_log = FailureLog(
            _log, self._loop.time, "no answer about the transaction", "the coordinator answers again"
        )

    # -- for the sender

    @property
    def producer_id(self) -> ProducerId | None:
        """Producer ID and epoch of the transaction."""
        return self._machine.producer_id

    @property
    def newest_produce(self) -> int | None:
        """Newest version of Produce in this transaction; None for no limit."""
        return PRODUCE_IN_VERSION_1 if self._machine.version < 2 else None

    @property
    def failed_for_good(self) -> bool:
        """Whether no batch may be sent any more."""
        return self._machine.state is TransactionState.FATAL_ERROR

    @property
    def adds_partitions(self) -> bool:
        """Whether partitions are added by a request, which may begin while their batches linger.

        Otherwise a partition is in the transaction once a batch of it is sent.
        """
        return self._machine.version < 2

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions that have batches."""
        self._apply(self._machine.add_partitions(partitions, self._now()))

    def may_send(self, partition: TopicPartition) -> bool:
        """Return whether batches of this partition may be sent."""
        return self._machine.may_send(partition)

    def record_failed(self, error: KohortError) -> None:
        """Make the transaction fail, because a record of it is not written."""
        if not self._discarding and not self._closed:
            self._apply(self._machine.batch_failed(error, self._now()))

    # -- calls of the application

    @property
    def state(self) -> TransactionState:
        """State of the producer."""
        return self._machine.state

    def check_open(self) -> None:
        """Raise an error unless records may be sent. Any thread may call it."""
        self._machine.check_open()

    async def initialize(self) -> None:
        """Get a producer ID and epoch, which fence older producers of this transactional ID."""
        with self._measured(self._metrics.txn_init):
            await self._end("init_transactions", self._machine.initialize)

    async def initialize_once(self) -> None:
        """Do as `initialize`, unless it was done."""
        unfinished = self._unfinished is not None and self._unfinished[0] == "init_transactions"
        if unfinished or self._machine.state is TransactionState.UNINITIALIZED:
            await self.initialize()

    def begin(self) -> None:
        """Begin a transaction."""
        self._check_finished("begin_transaction")
        with self._accumulator.lock, self._measured(self._metrics.txn_begin):
            self._machine.begin()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets with the transaction."""
        self._check_finished("send_offsets_to_transaction")
        call, done = self._new_call()
        try:
            with self._measured(self._metrics.txn_send_offsets):
                self._apply(self._machine.send_offsets(call, offsets, group, self._now()))
                await self._wait("send_offsets_to_transaction", done)
        finally:
            self._calls.pop(call, None)

    async def commit(self) -> None:
        """Write all records and commit."""
        with self._measured(self._metrics.txn_commit):
            await self._end("commit_transaction", self._machine.commit, self._write_all)
        self._log_state("committed")

    async def abort(self) -> None:
        """Discard the records that were not sent, and abort."""
        try:
            with self._measured(self._metrics.txn_abort):
                await self._end("abort_transaction", self._machine.abort, self._write_all)
        finally:
            if self._machine.state is not TransactionState.ABORTING:
                self._forget()  # the end of the transaction, or its error, tells of its records
        self._log_state("aborted")

    async def leave(self, timeout_s: float | None) -> None:
        """End the transaction before the producer closes, in up to `timeout_s` seconds.

        One that commits or aborts gets the time to do so; one that is open is aborted.
        """
        state = self._machine.state
        if state in (TransactionState.COMMITTING, TransactionState.ABORTING):
            await self._ended(timeout_s)
            return
        if state not in (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR):
            return
        why = "there was no time to abort it"
        if timeout_s != 0.0:
            try:
                async with asyncio.timeout(timeout_s):
                    await self.abort()
                _log.warning("aborted the transaction that was open when the producer closed: %s", self._subject)
                return
            except TimeoutError:
                pass
            except ProducerFencedError as problem:  # the coordinator has aborted what is fenced
                _log.warning("closed with a transaction that has no effect: %s: %s", self._subject, problem)
                return
            except KohortError as problem:
                why = str(problem)
        _log.warning("closed while a transaction was open (%s): %s; %s", why, self._subject, self._until_aborted)

    async def _ended(self, timeout_s: float | None) -> None:
        """Wait for the end of a call that the application no longer waits for."""
        assert self._unfinished is not None
        method, done = self._unfinished
        limit_s = self._options.max_block_ms / 1000 if timeout_s is None else timeout_s
        await asyncio.wait([done], timeout=limit_s)
        if not done.done():
            unknown = "closed before %s ended, so its result is not known: %s; if the transaction is open, %s"
            _log.warning(unknown, method, self._subject, self._until_aborted)
        elif (problem := done.exception()) is not None:
            _log.warning("%s failed while the producer closed: %s: %s", method, self._subject, problem)

    @property
    def _until_aborted(self) -> str:
        return (
            f"the coordinator aborts it after {self._options.transaction_timeout_ms} ms, and until then read_committed"
            " consumers read no records after it"
        )

    async def close(self) -> None:
        """Stop all requests."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        error = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the producer was closed")
        for done in self._calls.values():
            _fail(done, error)

    # -- waiting for results

    async def _end(
        self,
        method: str,
        begin: Callable[[int, Millis], Actions],
        then: Callable[[], Any] | None = None,
    ) -> None:
        """Run a call that changes the state. If it does not end in time, the same call waits for it again."""
        self._check_finished(method)
        if self._unfinished is None:
            call, done = self._new_call()
            try:
                with self._accumulator.lock:
                    actions = begin(call, self._now())
            except KohortError:
                del self._calls[call]
                raise
            self._unfinished = (method, done)
            self._apply(actions)
            if then is not None:
                self._start(then())
        else:
            _, done = self._unfinished
        try:
            await self._wait(method, done)
        finally:
            if done.done():
                self._unfinished = None

    @contextmanager
    def _measured(self, durations: Measurements) -> Iterator[None]:
        """Add the duration of a call that succeeds."""
        began = self._loop.time()
        yield
        now = self._loop.time()
        durations.add(now - began, now)

    def _check_finished(self, method: str) -> None:
        if self._unfinished is not None and self._unfinished[0] != method:
            raise TransactionStateError(
                f"{method} does not apply now: {self._unfinished[0]} did not end, so call it again to learn its result."
            )

    def _new_call(self) -> "tuple[int, asyncio.Future[None]]":
        self._last_call += 1
        done = self._calls[self._last_call] = self._loop.create_future()
        return self._last_call, done

    async def _wait(self, method: str, done: "asyncio.Future[None]") -> None:
        try:
            async with asyncio.timeout(self._options.max_block_ms / 1000):
                await asyncio.shield(done)
        except TimeoutError:
            problem = self._machine.problem
            why = f": {problem.sentence}" if problem is not None else ""
            raise TransactionTimeoutError(
                f"{method} did not end within max_block_ms{why}; it goes on, so call it again to learn its result"
            ) from None

    async def _write_all(self) -> None:
        await self._flush()
        self._apply(self._machine.all_written(self._now()))

    def _start(self, work: Any) -> None:
        task = self._loop.create_task(work, name=f"kohort-{self._purpose}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- events in, actions out

    def _now(self) -> Millis:
        return int(self._loop.time() * 1000)

    @property
    def _subject(self) -> str:
        return f"transactional_id={self._options.transactional_id}"

    def _apply(self, actions: Actions) -> None:
        if self._closed:
            return
        for call, error in actions.settled:
            done = self._calls.pop(call, None)
            if done is not None:
                _fail(done, error) if error is not None else _succeed(done)
        if actions.discard is not None:
            self._discard(actions.discard, retries=actions.discard_retries)
        if actions.wake:
            self._wake()
        if actions.find is not None:
            self._start(self._find(actions.find))
        if actions.send is not None:
            self._send(actions.send)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if actions.retry_at is not None:
            self._timer = self._loop.call_at(actions.retry_at / 1000, self._fire)

    def _discard(self, error: KafkaError, *, retries: bool) -> None:
        if self._machine.error is not None:
            _log.warning("%s: %s", self._subject, self._machine.error)
        self._discarding = True
        try:
            self._accumulator.discard(error, retries=retries)
        finally:
            self._discarding = False

    def _fire(self) -> None:
        self._timer = None
        self._apply(self._machine.fire(self._now()))

    async def _find(self, coordinator: Coordinator) -> None:
        try:
            connection = await self._cluster.coordinator(coordinator.key, self._purpose, coordinator.key_type)
            bumps = connection.version_of(InitProducerIdRequest) >= _BUMPS_EPOCHS_FROM
        except KafkaError as problem:
            self._unanswered(problem)
            self._apply(self._machine.coordinator_unavailable(coordinator, problem, self._now()))
            return
        self._connections[coordinator] = connection
        self._learn_features()
        self._apply(self._machine.coordinator_found(coordinator, self._now(), bumps_epochs=bumps))

    def _learn_features(self) -> None:
        self._machine.features(self._cluster.features.get(_FEATURE, 0))

    def _send(self, send: Send) -> None:
        try:
            answer = self._connections[send.coordinator].send(send.message, newest=send.newest)
        except (KafkaError, EncodeError) as problem:
            self._loop.call_soon(self._request_failed, send.request, _as_kafka_error(problem))
            return
        answer.add_done_callback(lambda done: self._answered(send, done))

    def _answered(self, send: Send, done: "asyncio.Future[Any]") -> None:
        if done.cancelled():
            return
        problem = done.exception()
        if problem is not None:
            assert isinstance(problem, KafkaError)
            self._unanswered(problem)
            self._request_failed(send.request, problem)
            return
        self._coordinator_log.succeeded([self._subject])
        self._learn_features()
        self._apply(self._machine.responded(send.request, done.result(), self._now()))

    def _request_failed(self, request: int, problem: KafkaError) -> None:
        self._apply(self._machine.request_failed(request, problem, self._now()))

    def _unanswered(self, problem: KafkaError) -> None:
        if problem.retriable and not self._closed:
            why = f"{problem.sentence}; the producer looks for the coordinator and asks again"
            self._coordinator_log.failed([self._subject], problem.code, why)

    def _log_state(self, what: str) -> None:
        _log.debug("%s: %s producer_id=%s", what, self._subject, self._machine.producer_id)


def _as_kafka_error(problem: KafkaError | EncodeError) -> KafkaError:
    # A request cannot be encoded if the broker's version of it lacks a field, such as the member of KIP-447.
    if isinstance(problem, KafkaError):
        return problem
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the broker is too old for this request: {problem}")


def _succeed(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)


def _fail(done: "asyncio.Future[None]", error: KafkaError) -> None:
    if not done.done():
        done.set_exception(error)
        done.exception()  # the caller may be gone
