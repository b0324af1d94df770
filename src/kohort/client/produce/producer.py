"""Producer of records: batched per partition, sent to the leaders and retried until delivery_timeout_ms."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import add
from typing import Any, Self, Unpack

from kohort.client.arguments import seconds
from kohort.client.failures import BufferFullError, InvalidRecordError
from kohort.client.keywords import ProducerKeywords
from kohort.client.loops import warn_unclosed
from kohort.client.membership import positions_of
from kohort.client.metrics import MetricName, MetricValue
from kohort.client.net import Cluster
from kohort.client.options import ProducerOptions
from kohort.client.produce.batches import Delivery
from kohort.client.produce.interceptors import ProducerRecord, SendInterception
from kohort.client.produce.producer_core import ProducerCore
from kohort.client.produce.record_checks import RECORD_OVERHEAD, check_partition, check_timestamp, record_size
from kohort.client.produce.transaction import Transaction, TransactionalConsumer, UndecidedConsumers, group_of
from kohort.client.produce.unclosed import finish_abandoned
from kohort.errors import ConfigError
from kohort.loading import LoadRequired
from kohort.member import OffsetAndMetadata
from kohort.member.transactions import ConsumerGroupMetadata, TransactionState
from kohort.model import Millis, TopicPartition
from kohort.wire.batches import Header

_RECORDS_PER_TURN = 1000  # number of sends after which the event loop runs, so that sending proceeds
_RUN_RECORDS = 1000
_RUN_BYTES = 1 << 16


def _runs(values: Sequence[bytes], most_bytes: int) -> Iterator[tuple[Sequence[bytes], int]]:
    """Divide values into runs of limited size, and yield each with its size. A larger value is a run of its own."""
    size = sum(map(len, values)) + RECORD_OVERHEAD * len(values)
    if len(values) == 1 or (len(values) <= _RUN_RECORDS and size <= most_bytes):
        yield values, size
    else:
        middle = len(values) // 2
        yield from _runs(values[:middle], most_bytes)
        yield from _runs(values[middle:], most_bytes)


_Serialized = tuple[bytes | None, bytes | None, list[Header]]


async def _after_load(needed: LoadRequired, serialize: Callable[[], _Serialized]) -> _Serialized:
    """Load what a serializer needs, outside of the event loop, and return what it then makes."""
    while True:
        await asyncio.to_thread(needed.load)
        try:
            return serialize()
        except LoadRequired as more:  # the value's serializer, after the key's
            needed = more


def _pair_runs(
    keys: Sequence[bytes], values: Sequence[bytes], most_bytes: int
) -> Iterator[tuple[Sequence[bytes], Sequence[bytes], int]]:
    """Divide keys and values as `_runs` does."""
    size = sum(map(len, keys)) + sum(map(len, values)) + RECORD_OVERHEAD * len(values)
    if len(values) == 1 or (len(values) <= _RUN_RECORDS and size <= most_bytes):
        yield keys, values, size
    else:
        middle = len(values) // 2
        yield from _pair_runs(keys[:middle], values[:middle], most_bytes)
        yield from _pair_runs(keys[middle:], values[middle:], most_bytes)


def producer_options(given: ProducerKeywords) -> ProducerOptions:
    """Return a producer's options. Raises ConfigError."""
    options = ProducerOptions.read(given)
    if "enable_idempotence" in given and options.enable_idempotence and not options.acks_all:
        raise ConfigError("enable_idempotence needs acks=all; set it to false for other acks.")
    if options.transactional_id is not None:
        if not options.transactional_id:
            raise ConfigError("transactional_id is empty: leave it out for a producer without transactions.")
        if not options.acks_all or not options.enable_idempotence:
            raise ConfigError("transactional_id needs acks=all and enable_idempotence: leave them out.")
    elif "transaction_timeout_ms" in given:
        raise ConfigError("transaction_timeout_ms applies only to a producer with a transactional_id.")
    return options


class Producer:
    """Producer of records.

    Use it as an async context manager, or call `close`, so that failures of unwritten records are
    reported.

    async with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
        delivery = await producer.send("orders", b"...", key=b"42")  # queued
        print((await delivery).offset)  # written

    All methods belong to the event loop in which the producer was created; any of its tasks may use
    it. Another thread, another loop or a forked process needs its own producer.
    `kohort.blocking.Producer` serves all threads of a process.

    A producer that is not closed emits a ResourceWarning when it is garbage collected. Its records
    are still sent: for up to ten seconds when its loop or the interpreter ends, after which
    standard error reports the number of unwritten records. A process that ends by a signal or
    `os._exit` loses them.
    """

    def __init__(self, **options: Unpack[ProducerKeywords]) -> None:
        """Create a producer. It connects when it is first used.

        - `options`: Options such as bootstrap_servers.
        """
        read = producer_options(options)
        self._options = read
        self._interception = SendInterception(read.interceptors, read) or None
        self._core = core = ProducerCore(read)
        self.cluster: Cluster = core.cluster
        """Client's view of the cluster, for inspection."""
        self._append = core.append
        self._serialize = core.serialization if core.serialization.configured else None
        self._undecided = UndecidedConsumers()
        self._loads: dict[str, LoadRequired] = {}
        """Loads that records of `send_nowait` need, by topic."""
        self._turn_left = _RECORDS_PER_TURN
        self._run_bytes = min(_RUN_BYTES, read.max_request_size // 2, read.buffer_memory // 2)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        await self.close(timeout=None if kind is None else 0.0)

    def __del__(self) -> None:
        core: ProducerCore | None = getattr(self, "_core", None)
        if core is not None and not core.closed:
            warn_unclosed(self)
            finish_abandoned(core)

    @property
    def interceptors(self) -> tuple[Any, ...]:
        """Interceptors, in the order in which they are called."""
        return () if self._interception is None else self._interception.interceptors

    def intercept(self, make: Callable[[ProducerOptions], Any]) -> None:
        """Add an interceptor after the others.

        - `make`: Function that returns the interceptor for the options of this producer.
        """
        interception = self._interception or SendInterception(())
        interception.add([make(self._options)])
        self._interception = interception

    # -- sending

    async def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        timestamp: Millis | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> Delivery:
        """Queue a record. Await the returned delivery to make sure that the record is written.

        Waits, up to max_block_ms, while the topic is not known yet or the buffer is full. Raises
        InvalidRecordError for values that are not bytes, SerializationError for a key or value that
        its serializer rejects, and KafkaError for a record that is too large or specifies a
        partition that the topic does not have.

        - `topic`: Name of the topic.
        - `value`: Value of the record; None deletes its key in a compacted topic.
        - `key`: Key of the record, which chooses the partition; None for none.
        - `timestamp`: Time of the record in milliseconds since 1970 (default: now).
        - `headers`: Pairs of a name and bytes or None. A name may repeat.
        - `partition`: Number of the partition (default: the partitioner chooses).
        """
        self._turn_left -= 1
        if not self._turn_left:
            self._turn_left = _RECORDS_PER_TURN
            await asyncio.sleep(0)
        record = None
        if (interception := self._interception) is not None:
            record = interception.on_send(ProducerRecord(topic, value, key, timestamp, headers, partition))
            topic, value, key, timestamp, headers, partition = record
        try:
            if (serialize := self._serialize) is not None:
                try:
                    key, value, headers = serialize(topic, key, value, headers)
                except LoadRequired as needed:
                    key, value, headers = await _after_load(needed, partial(serialize, topic, key, value, headers))
            if type(value) is bytes and key is None and not headers:
                size = len(value) + RECORD_OVERHEAD  # as `record_size`
            else:
                size = record_size(key, value, headers)
            if timestamp is not None:
                timestamp = check_timestamp(timestamp)
            while True:
                try:
                    delivery = self._append(topic, value, key, timestamp, headers, partition, size)
                    break
                except BufferFullError:
                    await self.ready(topic)
        except Exception as problem:
            if interception is not None and record is not None:
                interception.rejected(record, problem)
            raise
        if interception is not None and record is not None:
            interception.watch(record, delivery)
        return delivery

    def send_nowait(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        timestamp: Millis | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> Delivery:
        """Queue a record without waiting.

        Raises BufferFullError where `send` would wait; then `await ready(topic)`.

        - `topic`: Name of the topic.
        - `value`: Value of the record; None deletes its key in a compacted topic.
        - `key`: Key of the record, which chooses the partition; None for none.
        - `timestamp`: Time of the record in milliseconds since 1970 (default: now).
        - `headers`: Pairs of a name and bytes or None. A name may repeat.
        - `partition`: Number of the partition (default: the partitioner chooses).
        """
        if (interception := self._interception) is None:
            return self._send_nowait(topic, value, key, timestamp, headers, partition)
        record = interception.on_send(ProducerRecord(topic, value, key, timestamp, headers, partition))
        try:
            delivery = self._send_nowait(*record)
        except BufferFullError:
            raise  # the application sends the record again
        except Exception as problem:
            interception.rejected(record, problem)
            raise
        interception.watch(record, delivery)
        return delivery

    def _send_nowait(
        self,
        topic: str,
        value: Any,
        key: Any,
        timestamp: Millis | None,
        headers: Sequence[Header],
        partition: int | None,
    ) -> Delivery:
        if self._serialize is not None:
            try:
                key, value, headers = self._serialize(topic, key, value, headers)
            except LoadRequired as needed:
                self._loads[topic] = needed
                raise BufferFullError(
                    f"the serializer must load something for {topic} first, such as a schema: await ready({topic!r})."
                ) from None
        size = record_size(key, value, headers)
        if timestamp is not None:
            timestamp = check_timestamp(timestamp)
        return self._append(topic, value, key, timestamp, headers, partition, size)

    async def ready(self, topic: str) -> None:
        """Wait until the topic's partitions are known and the buffer has room.

        Raises KafkaError after max_block_ms. Also loads what a serializer needed in `send_nowait`,
        and raises SerializationError if that fails.

        - `topic`: Name of the topic.
        """
        if (needed := self._loads.pop(topic, None)) is not None:
            await asyncio.to_thread(needed.load)
        await self._core.ready(topic)

    async def partitions_for(self, topic: str) -> int:
        """Return the topic's partition count.

        - `topic`: Name of the topic.
        """
        return await self._core.partitions_for(topic)

    async def send_all(self, topic: str, records: Iterable[tuple[Any, Any, Millis | None]]) -> list[Delivery]:
        """Queue records of (key, value, timestamp), yielding to the event loop regularly.

        - `topic`: Name of the topic.
        - `records`: Records, each as key, value and timestamp; None for no key or for the current
          time.
        """
        return [await self.send(topic, value, key=key, timestamp=timestamp) for key, value, timestamp in records]

    async def send_values(
        self, topic: str, values: Sequence[bytes], *, partition: int | None = None
    ) -> list[tuple[int, Delivery]]:
        """Queue records that have only a value. Serializers and interceptors do not apply.

        This is several times as fast as `send` for each. Neighbours share a batch: the result has
        the number of records of each such run, and the delivery of its last record. Waits and raises
        as `send` does, before any of these records is queued.

        - `topic`: Name of the topic.
        - `values`: Values as bytes.
        - `partition`: Number of the partition (default: the partitioner chooses one for each run).
        """
        if not values:
            return []
        if {*map(type, values)} != {bytes}:
            raise InvalidRecordError("send_values takes a list of bytes: encode the values first.")
        self._core.check_size(max(map(len, values)) + RECORD_OVERHEAD)
        under_way = []
        for run, size in _runs(values, self._run_bytes):
            await asyncio.sleep(0)
            while True:
                try:
                    delivery = self._core.append_values(topic, run, partition, size)
                    break
                except BufferFullError:
                    await self.ready(topic)
            under_way.append((len(run), delivery))
        return under_way

    async def send_pairs(
        self, topic: str, keys: Sequence[bytes], values: Sequence[bytes], *, partition: int | None = None
    ) -> list[tuple[int, Delivery]]:
        """Queue records that have only a key and a value. Serializers and interceptors do not apply.

        This is faster than `send` for each. Records of one partition keep their order. The result
        is that of `send_values`, and so are the errors and waiting times.

        - `topic`: Name of the topic.
        - `keys`: Keys as bytes.
        - `values`: Values as bytes, as many as keys.
        - `partition`: Number of the partition (default: the partitioner chooses one for each key).
        """
        if len(keys) != len(values):
            raise InvalidRecordError(f"send_pairs takes as many keys as values, not {len(keys)} and {len(values)}.")
        if not values:
            return []
        if {*map(type, values), *map(type, keys)} != {bytes}:
            raise InvalidRecordError("send_pairs takes lists of bytes: encode the keys and values first.")
        self._core.check_size(max(map(add, map(len, keys), map(len, values))) + RECORD_OVERHEAD)
        count = await self.partitions_for(topic)
        if partition is not None:
            placed = {check_partition(topic, partition, count): [*range(len(keys))]}
        else:
            placed = self._core.place_keys(topic, keys)
        under_way = []
        for number, indexes in placed.items():
            if len(placed) == 1:
                runs = _pair_runs(keys, values, self._run_bytes)
            else:
                some = [keys[index] for index in indexes], [values[index] for index in indexes]
                runs = _pair_runs(*some, self._run_bytes)
            for run_keys, run_values, size in runs:
                await asyncio.sleep(0)
                while True:
                    try:
                        delivery = self._core.append_pairs(topic, run_keys, run_values, number, size)
                        break
                    except BufferFullError:
                        await self.ready(topic)
                under_way.append((len(run_values), delivery))
        return under_way

    # -- transactions

    async def init_transactions(self) -> None:
        """Get the next epoch of the transactional ID, which fences older producers of it.

        Waits until the coordinator has ended the transaction of the producer before. `transaction`
        calls it, too. This method and those that follow raise ProducerFencedError if another producer
        has fenced this one, FatalTransactionError if the producer must be closed for another reason,
        and TransactionTimeoutError after max_block_ms: then call the same method again.
        """
        await self._core.transactions.initialize()

    def transaction(self, consumer: TransactionalConsumer | None = None) -> Transaction:
        """Return a transaction for `async with`, which commits at the end of the block and aborts after an exception.

        async with producer.transaction(consumer):
            for record in await consumer.poll():
                await producer.send("copies", record.value)

        - `consumer`: Consumer whose offsets the transaction commits. After an abort it returns the
          same records again.
        """
        return Transaction(self._core.transactions, self._undecided, consumer)

    @property
    def transaction_state(self) -> TransactionState:
        """State of the transactional producer. Raises TransactionStateError without a transactional_id."""
        return self._core.transactions.state

    def begin_transaction(self) -> None:
        """Begin a transaction. Raises TransactionStateError before `init_transactions`."""
        self._core.transactions.begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit offsets of a group with the transaction.

        Raises TransactionAbortableError if the group rejects them, such as after a rebalance.

        - `offsets`: Offset of the next record to process, by partition.
        - `group`: Result of `Consumer.group_metadata`. With only the name of a group, its coordinator
          does not check whether the partitions still belong to the consumer.
        """
        await self._core.transactions.send_offsets(positions_of(offsets), group_of(group))

    async def commit_transaction(self) -> None:
        """Write all records and commit. Raises TransactionAbortableError if a record or offset was not written."""
        await self._core.transactions.commit()
        self._undecided.committed()

    async def abort_transaction(self) -> None:
        """Abort. Records that were not sent are discarded; their deliveries raise TransactionAbortableError."""
        await self._core.transactions.abort()
        self._undecided.aborted()

    def metrics(self) -> dict[MetricName, MetricValue]:
        """Return the metrics, with the names and groups of Java's producer.

        Rates, averages and extremes cover the last metrics_num_samples windows of
        metrics_sample_window_ms; an average of nothing is NaN.
        """
        return self._core.report()

    # -- flushing and closing

    async def flush(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait until every record queued so far is written or has failed.

        Raises DeliveryFailedError if records failed since the last flush and their deliveries were
        neither awaited nor asked for their `result`. Raises KafkaError (REQUEST_TIMED_OUT) if
        records are still pending after `timeout` seconds; they stay queued.

        - `timeout`: Longest time to wait, in seconds (default: delivery_timeout_ms limits it).
        """
        await self._core.flush(None if timeout is None else seconds("timeout", timeout))

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Flush for up to `timeout` seconds, fail the remaining records and disconnect.

        None flushes for as long as delivery_timeout_ms allows. Failed records raise nothing here;
        those whose deliveries the application never checked are logged as errors with their number
        and the reason. Closing twice is allowed.

        - `timeout`: Longest time to flush, in seconds; 0 fails all records that are not written.
        """
        closed_before = self._core.closed
        await self._core.close(None if timeout is None else seconds("timeout", timeout))
        if self._interception is not None and not closed_before:
            self._interception.tell("close")
