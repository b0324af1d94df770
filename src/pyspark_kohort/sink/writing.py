"""Executor's side of the sink: write the rows of one task to their partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kohort.columns import Columns, PartitionEncoder, columns_of
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.model import TopicPartition
from kohort.requests import ProducerId
from kohort.wire.batches import HEADER_SIZE
from pyspark_kohort.net import BlockingCluster, cluster_of_worker
from pyspark_kohort.sink.coordinators import Coordinators
from pyspark_kohort.sink.decisions import TaskOutput, Transaction
from pyspark_kohort.sink.options import SinkOptions
from pyspark_kohort.sink.routing import Router
from pyspark_kohort.sink.sending import Sender, new_numbers

_REQUEST_OVERHEAD = 512
"""Size of a produce request apart from its records, in bytes: at least a topic's name."""
_ABORT_MS = 2_000
"""Longest time for which a failed task tries to abort its transaction, in milliseconds."""


def write_rows(
    batches: Iterator[pa.RecordBatch],
    options: SinkOptions,
    number: ProducerId | None,
    *,
    seed: int,
    resume: bool,
) -> int:
    """Write all rows; return their number.

    With `resume`, an earlier attempt with the same producer id may have written some of them. Raises
    KohortError (KafkaError included) if no broker accepts the rows.
    """
    cluster = cluster_of_worker(options.broker)
    done = False
    try:
        rows = _write_rows(cluster, batches, options, number, seed=seed, resume=resume)
        done = True
    finally:
        if not done:
            cluster.reset()  # responses that are no longer needed may be pending
    return rows


def _write_rows(
    cluster: BlockingCluster,
    batches: Iterator[pa.RecordBatch],
    options: SinkOptions,
    number: ProducerId | None,
    *,
    seed: int,
    resume: bool,
) -> int:
    if number is None and options.idempotent:
        (number,) = new_numbers(cluster, 1)
    writing = _Writing(options, Sender(cluster, options, number), resume=resume)
    router = Router(options.topic, _Counts(cluster.count_to_write), seed)
    rows = 0
    for batch in batches:
        columns = _columns(batch)
        for tp, some in router.route(batch, columns.key):
            writing.add(tp, columns, some)
        rows += batch.num_rows
    writing.finish()
    return rows


def write_in_transaction(
    batches: Iterator[pa.RecordBatch], options: SinkOptions, *, task: int, attempt: int, seed: int
) -> TaskOutput:
    """Write all rows in a transaction and leave it open; return what is written.

    Rows that cannot be written abort it. Raises KohortError (KafkaError included).
    """
    cluster = cluster_of_worker(options.broker)
    rows: Counter[str] = Counter()
    transaction: TaskTransaction | None = None
    writing: _Writing | None = None
    router = Router(options.topic, _Counts(cluster.count_to_write), seed)
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if writing is None:  # a task without rows needs no transaction
                transaction = TaskTransaction(options, task, attempt)
                sender = Sender(cluster, options, transaction.producer, transaction)
                writing = _Writing(options, sender, resume=False)
            columns = _columns(batch)
            for tp, some in router.route(batch, columns.key):
                writing.add(tp, columns, some)
                rows[tp.topic] += len(some)
        if writing is not None:
            writing.finish()
    except BaseException:
        cluster.reset()  # responses that are no longer needed may be pending
        if transaction is not None:
            transaction.abort()
        raise
    return TaskOutput(task, rows, None if transaction is None else transaction.written())


def drop_rows(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> dict[str, int]:
    """Take all rows and write none, so that the query's state is complete; return their number by topic."""
    rows: Counter[str] = Counter()
    for batch in batches:
        if options.topic is not None:
            rows[options.topic] += batch.num_rows
        else:
            counted: Any = pc.value_counts(batch.column("topic"))
            for entry in counted.to_pylist():
                rows[entry["values"]] += entry["counts"]
    return dict(+rows)


class TaskTransaction:
    """The transaction of a task, which the driver ends."""

    def __init__(self, options: SinkOptions, task: int, attempt: int) -> None:
        self._options = options
        # Its own connections: those of the sender may have responses under way.
        cluster = cluster_of_worker(options.broker, "transactions")
        self._coordinators = Coordinators(cluster, options.delivery_timeout_ms)
        self.transactional_id = self._coordinators.unused_id(f"{options.transactional_id}-{task}", attempt)
        try:
            begun = self._coordinators.begin([self.transactional_id], options.transaction_timeout_ms)
        except KafkaError as error:
            if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise KohortError(
                    f"kafka.transaction.timeout.ms is {options.transaction_timeout_ms}, more than the brokers'"
                    " transaction.max.timeout.ms allows."
                ) from None
            raise
        self.producer = begun[self.transactional_id]
        self._added: set[TopicPartition] = set()
        self._place: tuple[TopicPartition, int] | None = None

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction. Raises KafkaError."""
        if fresh := set(partitions) - self._added:
            self._coordinators.add(self.transactional_id, self.producer, sorted(fresh))
            self._added |= fresh

    def has_written(self, tp: TopicPartition, offset: int) -> None:
        """Note the offset of the first record in a partition."""
        if self._place is None:
            self._place = tp, offset

    def written(self) -> Transaction:
        """Return the transaction as the driver needs it."""
        return Transaction(self.transactional_id, self.producer, self._place)

    def abort(self) -> None:
        """Abort the transaction if that is possible at once; otherwise the driver does."""
        with suppress(KohortError):
            coordinators = Coordinators(cluster_of_worker(self._options.broker, "transactions"), _ABORT_MS)
            coordinators.end([self.written()], commit=False)


class _Counts(dict[str, int]):
    """Partition counts by topic, looked up once per task.

    The rows of one key stay together even if a topic grows meanwhile.
    """

    def __init__(self, ask: Any) -> None:
        self._ask = ask

    def __call__(self, topic: str) -> int:
        if topic not in self:
            self[topic] = self._ask(topic)
        return self[topic]


class _Writing:
    """Records gathered for each partition."""

    def __init__(self, options: SinkOptions, sender: Sender, *, resume: bool) -> None:
        self._limit = options.request_bytes - HEADER_SIZE - _REQUEST_OVERHEAD
        self._memory = options.memory
        self._sender = sender
        self._resume = resume
        self._encoders: dict[TopicPartition, PartitionEncoder] = {}
        self._to_skip: dict[TopicPartition, int] = {}

    def add(self, tp: TopicPartition, columns: Columns, rows: Any) -> None:
        encoder = self._encoders.get(tp)
        if encoder is None:
            encoder = self._encoders[tp] = PartitionEncoder(self._limit)
            if self._resume:
                self._to_skip[tp] = self._sender.written(tp)
        if skip := self._to_skip.get(tp, 0):
            self._to_skip[tp] = max(0, skip - len(rows))
            rows = rows[skip:]
        before = encoder.memory
        self._sender.send(tp, encoder.add(columns, rows))
        if encoder.memory > before and sum(encoder.memory for encoder in self._encoders.values()) > self._memory:
            self._send_all()

    def finish(self) -> None:
        self._send_all()
        self._sender.flush()

    def _send_all(self) -> None:
        """Send the gathered records of every partition, and release their memory."""
        self._sender.send_all((tp, encoder.take()) for tp, encoder in self._encoders.items() if encoder.count)
        for tp in self._encoders:
            self._encoders[tp] = PartitionEncoder(self._limit)


def _columns(batch: pa.RecordBatch) -> Columns:
    def column(name: str) -> Any:
        return batch.column(name) if name in batch.schema.names else None

    value = column("value")
    if value is None:
        raise KohortError("There is no column value to write.")
    return columns_of(column("key"), value, column("headers"))
