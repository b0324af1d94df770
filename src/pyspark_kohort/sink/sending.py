"""Sender of packed records to partition leaders; unacknowledged batches are resent with the same sequence numbers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.model import TopicPartition
from kohort.requests import (
    ProducerId,
    describe_producers_request,
    produce_request,
    producer_id_request,
    read_outcomes,
    read_producer_id,
    read_producers,
)
from kohort.wire.batches import Buffer, pack_batch
from kohort.wire.messages.describe_producers import DescribeProducersResponse
from kohort.wire.messages.init_producer_id import InitProducerIdResponse
from kohort.wire.messages.produce import ProduceResponse
from pyspark_kohort.net import BlockingCluster, BlockingConnection
from pyspark_kohort.sink.options import SinkOptions

_IN_FLIGHT = 5
"""Maximum number of requests in flight per connection.

A broker remembers that number of batches per producer and partition.
"""
_FIRST_PAUSE_S = 0.05
_REASONS = {
    ErrorCode.MESSAGE_TOO_LARGE: "a row is larger than the topic's max.message.bytes",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "another attempt of this task has written meanwhile",
    ErrorCode.INVALID_PRODUCER_EPOCH: "a newer run of this query has written meanwhile",
}
_REASONS_OF_TRANSACTIONS = _REASONS | dict.fromkeys(
    (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE),
    "the transaction has ended: it took longer than kafka.transaction.timeout.ms, or another query or a newer run of"
    " this one uses the kafka.transactional.id",
)


@dataclass(frozen=True, slots=True)
class _Batch:
    tp: TopicPartition
    data: bytearray
    first: bool
    """Whether it is the sender's first one in that partition."""


class OpenTransaction(Protocol):
    """Transaction in which a sender writes."""

    transactional_id: str

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions, those that are not in the transaction already, before anything is sent to them."""

    def has_written(self, tp: TopicPartition, offset: int) -> None:
        """Note the offset of the first record in a partition."""


class Sender:
    """Sender of the batches of one task. `number` is None if idempotence is disabled."""

    def __init__(
        self,
        cluster: BlockingCluster,
        options: SinkOptions,
        number: ProducerId | None,
        transaction: OpenTransaction | None = None,
    ) -> None:
        assert transaction is None or number is not None
        self._cluster = cluster
        self._options = options
        self._number = number
        self._transaction = transaction
        self._sequences: dict[TopicPartition, int] = {}
        self._waiting: deque[_Batch] = deque()
        self._flying: dict[BlockingConnection, deque[list[_Batch]]] = {}
        self._progress_at = time.monotonic()
        self._pause = _FIRST_PAUSE_S

    def written(self, tp: TopicPartition) -> int:
        """Return how many records of the partition an earlier attempt with this number wrote.

        Later sends follow these records.
        """
        assert self._number is not None
        count = self._sequences[tp] = _written(self._cluster, tp, self._number)
        return count

    def send(self, tp: TopicPartition, batches: Iterable[tuple[int, Buffer]]) -> None:
        """Send these (count, records) batches after earlier ones; some may still be in flight on return."""
        for count, records in batches:
            self._waiting.append(self._sealed(tp, count, records))
            self._pump(all_of_it=False)

    def send_all(self, batches: Iterable[tuple[TopicPartition, tuple[int, Buffer]]]) -> None:
        """Send batches of several partitions in as few requests as possible. See `send`."""
        for tp, (count, records) in batches:
            self._waiting.append(self._sealed(tp, count, records))
        self._pump(all_of_it=False)

    def flush(self) -> None:
        """Wait until everything is acknowledged. Raises KafkaError or KohortError if a broker rejects a batch."""
        self._pump(all_of_it=True)

    def _sealed(self, tp: TopicPartition, count: int, records: Buffer) -> _Batch:
        number, sequence = self._number or ProducerId(-1, -1), -1
        if self._number is not None:
            sequence = self._sequences.get(tp, 0)
            self._sequences[tp] = (sequence + count) & 0x7FFFFFFF
        now = time.time_ns() // 1_000_000
        transactional = self._transaction is not None
        codec = self._options.codec
        batch = pack_batch(records, count, now, codec, number.id, number.epoch, sequence, transactional=transactional)
        return _Batch(tp, batch, first=sequence == 0)

    def _pump(self, *, all_of_it: bool) -> None:
        while self._waiting or (all_of_it and any(self._flying.values())):
            try:
                if self._waiting:
                    self._transmit()
                else:
                    self._receive(next(leader for leader, requests in self._flying.items() if requests))
            except KafkaError as error:
                self._recover(error)

    def _transmit(self) -> None:
        if self._transaction is not None:
            self._transaction.add({batch.tp for batch in self._waiting})
        leader = self._cluster.leader(self._waiting[0].tp)
        requests = self._flying.setdefault(leader, deque())
        if len(requests) >= _IN_FLIGHT:
            self._receive(leader)
        some, size, tps = [self._waiting[0]], len(self._waiting[0].data), {self._waiting[0].tp}
        for batch in list(self._waiting)[1:]:
            size += len(batch.data)
            if size > self._options.request_bytes or batch.tp in tps or self._cluster.leader(batch.tp) is not leader:
                break
            some.append(batch)
            tps.add(batch.tp)
        request = produce_request(
            [(batch.tp, batch.data) for batch in some],
            acks=self._options.acks,
            timeout_ms=self._options.broker.request_timeout_ms,
            transactional_id=None if self._transaction is None else self._transaction.transactional_id,
        )
        leader.send(request)
        requests.append(some)
        for _ in some:
            self._waiting.popleft()

    def _receive(self, leader: BlockingConnection) -> None:
        """Process the response to the oldest request on that connection. Unacknowledged batches stay in flight."""
        outcomes = read_outcomes(leader.receive(ProduceResponse))
        missing = {batch.tp: batch for batch in self._flying[leader][0]}
        failed: KafkaError | None = None
        for tp, outcome in outcomes.items():
            code = outcome.code
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                batch = missing.pop(tp)
                if self._transaction is not None and batch.first and outcome.base_offset >= 0:
                    self._transaction.has_written(tp, outcome.base_offset)
            else:
                reasons = _REASONS if self._transaction is None else _REASONS_OF_TRANSACTIONS
                failed = failed or KafkaError(code, f"{tp}: {reasons.get(code) or code.sentence}")
        self._flying[leader][0] = list(missing.values())
        if failed is not None:
            raise failed
        assert not missing
        self._flying[leader].popleft()
        self._progress_at, self._pause = time.monotonic(), _FIRST_PAUSE_S

    def _recover(self, error: KafkaError) -> None:
        """Resend all that is not acknowledged; brokers detect duplicates by their sequence numbers."""
        waited_ms = (time.monotonic() - self._progress_at) * 1000
        if not error.retriable:
            raise error
        if waited_ms > self._options.delivery_timeout_ms:
            raise KohortError(f"Nothing could be written for {waited_ms / 1000:.0f} s: {error}")
        again = [batch for requests in self._flying.values() for request in requests for batch in request]
        self._waiting.extendleft(reversed(again))
        self._flying.clear()
        self._cluster.reset()
        time.sleep(self._pause)
        self._pause = min(1.0, 2 * self._pause)


def new_numbers(cluster: BlockingCluster, count: int) -> list[ProducerId]:
    """Return `count` new producer ids."""
    return cluster.ask(lambda: _init(cluster, count))


def _init(cluster: BlockingCluster, count: int) -> list[ProducerId]:
    connection = cluster.any_connection()
    for _ in range(count):
        connection.send(producer_id_request())
    answers = [connection.receive(InitProducerIdResponse) for _ in range(count)]
    return [read_producer_id(answer) for answer in answers]


def _written(cluster: BlockingCluster, tp: TopicPartition, number: ProducerId) -> int:
    return cluster.ask(lambda: _last_sequence(cluster, tp, number)) + 1


def _last_sequence(cluster: BlockingCluster, tp: TopicPartition, number: ProducerId) -> int:
    request = describe_producers_request([tp])
    found, refused = read_producers(cluster.leader(tp).call(request, DescribeProducersResponse))
    for error in refused.values():
        raise error
    for producer in found[tp]:
        if (producer.producer_id, producer.producer_epoch) == (number.id, number.epoch):
            return producer.last_sequence
    return -1
