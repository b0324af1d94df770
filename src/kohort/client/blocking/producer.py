"""`kohort.Producer` for plain threads, which put records into the batches that its event loop sends."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import time_ns
from typing import Any, Unpack

from kohort.client.arguments import names_of, seconds
from kohort.client.blocking.loop import BlockingClient, call_in_loop
from kohort.client.blocking.send_queue import PendingDelivery, SendQueue
from kohort.client.blocking.transaction import Transaction
from kohort.client.failures import BufferFullError
from kohort.client.keywords import ProducerKeywords
from kohort.client.membership import positions_of
from kohort.client.metrics import MetricName, MetricValue
from kohort.client.options import ProducerOptions
from kohort.client.produce import (
    RECORD_OVERHEAD,
    Batch,
    BatchedRecord,
    ProducerCore,
    ProducerRecord,
    RecordMetadata,
    SendInterception,
    Serialization,
    TransactionalConsumer,
    UndecidedConsumers,
    check_partition,
    check_timestamp,
    finish_abandoned,
    group_of,
    producer_options,
    record_size,
)
from kohort.errors import ErrorCode, KafkaError
from kohort.loading import LoadRequired
from kohort.member import OffsetAndMetadata
from kohort.member.transactions import ConsumerGroupMetadata, TransactionState
from kohort.model import Millis, TopicPartition
from kohort.wire.batches import Header

_MOST_HANDED_OVER = 2_000
"""Maximum number of records that the application's threads may be ahead of the event loop."""


def _serialized(
    serialize: Serialization, topic: str, key: Any, value: Any, headers: Sequence[Header]
) -> tuple[bytes | None, bytes | None, Sequence[Header]]:
    while True:
        try:
            return serialize(topic, key, value, headers)
        except LoadRequired as needed:
            needed.load()


def _tell(interception: SendInterception, record: ProducerRecord, pending: PendingDelivery) -> None:
    interception.decided(record, pending.error, pending.outcome)


class BlockingDelivery(BatchedRecord):
    """Result of one `send`; `result` waits for it.

    If `result` does not retrieve a failure, the producer's next `flush` raises it, and it is
    logged.
    """

    __slots__ = ("_producer",)

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index
        self._producer: Producer

    def add_done_callback(self, callback: "Callable[[BlockingDelivery], object]") -> None:
        """Call `callback` with this delivery once the record is written or has failed.

        It runs in the producer's thread, where it must not block, or at once if the result is known.
        """
        self._when_done(lambda: callback(self))

    @property
    def shared(self) -> object:
        """What this delivery shares with those of the same batch: an object for which `when_batch_done` calls."""
        return self._batch

    def when_batch_done(self, call: Callable[[object], object]) -> None:
        """Call `call` with `shared`, once or twice, when it is written or has failed. Only for one of a batch."""
        self._batch.when_done(call)

    def _when_done(self, call: Callable[[], object]) -> None:
        self._producer.when_done(PendingDelivery.of(self), call)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the record's metadata.

        Raises the KafkaError that prevented the write, or REQUEST_TIMED_OUT after `timeout`
        seconds, in which case the record may still be written.
        """
        if self.done():
            return self._outcome()
        return self._wait(None if timeout is None else seconds("timeout", timeout))

    def _wait(self, timeout_s: float | None) -> RecordMetadata:
        return self._producer.wait_for(PendingDelivery.of(self), timeout_s)


class QueuedDelivery(BlockingDelivery):
    """Result of a record that the event loop puts into a batch."""

    __slots__ = ("_pending",)

    def __init__(self, producer: "Producer", pending: PendingDelivery) -> None:
        self._producer = producer
        self._pending = pending

    def done(self) -> bool:
        return self._pending.done()

    def failed(self) -> bool:
        return self._pending.failed()

    @property
    def error(self) -> Exception | None:
        return self._pending.error

    @property
    def shared(self) -> object:
        return self._pending

    def when_batch_done(self, call: Callable[[object], object]) -> None:
        self._when_done(lambda: call(self._pending))

    def _outcome(self) -> RecordMetadata:
        return self._pending.outcome()

    def _when_done(self, call: Callable[[], object]) -> None:
        self._producer.when_done(self._pending, call)

    def _wait(self, timeout_s: float | None) -> RecordMetadata:
        return self._producer.wait_for(self._pending, timeout_s)


class Producer(BlockingClient):
    """Blocking version of `kohort.Producer`.

    Use it as a context manager, or call `close`. If an exception leaves the `with` block, the
    producer does not wait for deliveries, as in `kohort.Producer`.

    Any number of threads may share one producer. A forked process needs its own; there the methods
    raise ConcurrentUseError.

    A producer that is not closed emits a ResourceWarning when it is garbage collected. Its records
    are still sent: for up to ten seconds when the interpreter exits, after which standard error
    reports the number of unwritten records. A process that ends by a signal or `os._exit` loses
    them.
    """

    def __init__(self, **options: Unpack[ProducerKeywords]) -> None:
        read = producer_options(options)
        self._options = read
        self._interception = SendInterception(read.interceptors, read) or None
        super().__init__("kohort-producer")
        try:
            self._core = self._call(
                lambda: call_in_loop(lambda: ProducerCore(read, keep=False, threads=BlockingDelivery))
            )
        except BaseException:
            self._stop()
            raise
        self._records = SendQueue(self._core)
        self._append, self._lock = self._core.append, self._core.lock
        self._serialize = self._core.serialization if self._core.serialization.configured else None
        self._transactional = read.transactional_id is not None
        self._undecided = UndecidedConsumers()
        self._made = True

    def __exit__(self, *exc: object) -> None:
        if exc[0] is None:
            self.close()
        elif not self._forked:  # a forked child that leaves the block has nothing to close
            self.close(timeout=0.0)

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        timestamp: Millis | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> BlockingDelivery:
        """Queue a record, waiting only if the event loop is far behind. See `kohort.Producer.send`.

        Serializers run in the calling thread. Raises immediately for errors that can be detected
        immediately: a record that cannot be serialized, is not bytes or too large, and a partition
        that the topic does not have, once the producer knows the topic.
        """
        if self._stopped:
            raise self._refusal()
        if self._transactional:
            self._core.check_open()
        interception, record = self._interception, None
        if interception is not None:
            record = interception.on_send(ProducerRecord(topic, value, key, timestamp, headers, partition))
            topic, value, key, timestamp, headers, partition = record
        try:
            if type(topic) is not str or not topic:
                names_of([topic])
            if self._serialize is not None:
                key, value, headers = _serialized(self._serialize, topic, key, value, headers)
            if type(value) is bytes and key is None and not headers:
                size = len(value) + RECORD_OVERHEAD  # as `record_size`
            else:
                size = record_size(key, value, headers)
            if partition is not None:
                partition = check_partition(topic, partition, self._core.topics.count(topic))
            timestamp = time_ns() // 1_000_000 if timestamp is None else check_timestamp(timestamp)
            records = self._records
            if not records.remembered:
                records.remember()
            if not records.items and interception is None:  # else this record has to wait for those before it
                try:
                    with self._lock:
                        delivery: Any = self._append(topic, value, key, timestamp, headers, partition, size)
                    delivery._producer = self
                    return delivery  # type: ignore[no-any-return]  # the core makes what `threads` says
                except BufferFullError:
                    pass
            self._core.check_size(size)
        except Exception as problem:
            if isinstance(problem, KafkaError):
                self._core.record_failed(problem)
            if interception is not None and record is not None:
                interception.rejected(record, problem)
            raise
        pending = PendingDelivery()
        if interception is not None and record is not None:
            pending.calls = [partial(_tell, interception, record, pending)]
        # The caller may change a bytearray or a list before the loop encodes the record.
        value = value if value is None or type(value) is bytes else bytes(value)
        key = key if key is None or type(key) is bytes else bytes(key)
        self._records.put((pending, topic, value, key, timestamp, tuple(headers), partition, size))
        if len(self._records) > _MOST_HANDED_OVER:
            self._call(self._records.done)
        return QueuedDelivery(self, pending)

    def flush(self, *, timeout: float | None = None) -> None:
        """Wait until every record sent so far is written or has failed. See `kohort.Producer.flush`."""
        timeout_s = None if timeout is None else seconds("timeout", timeout)
        self._call(lambda: self._records.flush(timeout_s))

    # -- transactions

    def init_transactions(self) -> None:
        """See `kohort.Producer.init_transactions`."""
        self._call(lambda: self._core.transactions.initialize())

    def transaction(self, consumer: TransactionalConsumer | None = None) -> Transaction:
        """Return a transaction for `with`, which commits at the end of the block and aborts after an exception.

        - `consumer`: Consumer whose offsets the transaction commits. After an abort it returns the
          same records again.
        """
        transactions = self._core.transactions
        return Transaction(
            self,
            lambda: self._call(transactions.initialize_once),
            lambda: transactions.state,
            self._undecided,
            consumer,
        )

    @property
    def transaction_state(self) -> TransactionState:
        """See `kohort.Producer.transaction_state`."""
        return self._core.transactions.state

    def begin_transaction(self) -> None:
        """See `kohort.Producer.begin_transaction`."""
        self._call(lambda: call_in_loop(lambda: self._core.transactions.begin()))

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group: ConsumerGroupMetadata | str,
    ) -> None:
        """See `kohort.Producer.send_offsets_to_transaction`."""
        self._call(lambda: self._core.transactions.send_offsets(positions_of(offsets), group_of(group)))

    def commit_transaction(self) -> None:
        """See `kohort.Producer.commit_transaction`."""
        self._call(self._records.commit)
        self._undecided.committed()

    def abort_transaction(self) -> None:
        """See `kohort.Producer.abort_transaction`."""
        self._call(self._records.abort)
        self._undecided.aborted()

    def partitions_for(self, topic: str) -> int:
        """Return the topic's partition count."""
        return self._call(lambda: self._core.partitions_for(topic))

    @property
    def interceptors(self) -> tuple[Any, ...]:
        """Interceptors, in the order in which they are called."""
        return () if self._interception is None else self._interception.interceptors

    def intercept(self, make: Callable[[ProducerOptions], Any]) -> None:
        """See `kohort.Producer.intercept`."""
        interception = self._interception or SendInterception(())
        interception.add([make(self._options)])
        self._interception = interception

    def metrics(self) -> dict[MetricName, MetricValue]:
        """See `kohort.Producer.metrics`."""
        return self._call(lambda: call_in_loop(self._core.report))

    def close(self, *, timeout: float | None = None) -> None:
        """Flush and disconnect. See `kohort.Producer.close`. Closing twice is allowed."""
        timeout_s = None if timeout is None else seconds("timeout", timeout)
        self._check_process()
        if self._stopped:
            return
        try:
            self._call(lambda: self._records.close(timeout_s))
        finally:
            self._stop()
            if self._interception is not None:
                self._interception.tell("close")

    def when_done(self, pending: PendingDelivery, call: Callable[[], object]) -> None:
        """Call `call` once the record is written or has failed.

        - `pending`: Result of a `send`.
        - `call`: Function to call.
        """
        if pending.done():
            call()
        else:
            self._records.loop.call_soon_threadsafe(pending.when_done, call)

    def wait_for(self, pending: PendingDelivery, timeout_s: float | None) -> RecordMetadata:
        """Wait until the record is written or has failed. Raises REQUEST_TIMED_OUT after `timeout_s` seconds.

        - `pending`: Result of a `send`.
        - `timeout_s`: Longest time to wait, in seconds; None for no limit.
        """
        try:
            return self._call(lambda: self._records.decided(pending), timeout_s)
        except TimeoutError:
            detail = f"the record is neither written nor failed after {timeout_s:g} s; it may still be written"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail) from None

    def _abandon(self) -> None:
        finish_abandoned(self._records, self._thread.stop_soon)
