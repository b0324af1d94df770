"""Executor's side of the sink: write the rows of one task to their partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kohort.columns import Columns, PartitionEncoder, columns_of
from kohort.errors import KohortError
from kohort.model import TopicPartition
from kohort.requests import ProducerId
from kohort.wire.batches import HEADER_SIZE
from pyspark_kohort.net import BlockingCluster, cluster_of_worker
from pyspark_kohort.sink.options import SinkOptions
from pyspark_kohort.sink.routing import Router
from pyspark_kohort.sink.sending import Sender, new_numbers

_REQUEST_OVERHEAD = 512
"""Size of a produce request apart from its records, in bytes: at least a topic's name."""


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
