"""The least shell around a `TransactionShard`: a log in memory, virtual time, and markers that a test writes."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from kohort.coordinator import RequestContext
from kohort.coordinator.transactions import (
    Markers,
    Transaction,
    TransactionConfig,
    TransactionEffects,
    TransactionShard,
    TransactionState,
    TransactionTimer,
)
from kohort.errors import ErrorCode
from kohort.model import Millis, TopicPartition
from kohort.wire.codec import Message, decode, encode
from kohort.wire.group_log import Record
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kohort.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kohort.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue
from kohort.wire.transaction_log import decode_key, decode_value, encode_key, encode_value

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
OFFSETS = TopicPartition("__consumer_offsets", 7)

_M = TypeVar("_M", bound=Message)

Producer = tuple[int, int]
"""Producer ID and epoch."""


@dataclass
class Shell:
    """One shard and everything that it needs."""

    config: TransactionConfig = field(default_factory=TransactionConfig)
    version: int = 2
    """Finalized level of transaction.version."""
    first_producer_id: int = 100
    now: Millis = 1_000_000
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    timers: dict[TransactionTimer, Millis] = field(default_factory=dict)
    markers: list[Markers] = field(default_factory=list)
    """Markers to write, in order."""

    def __post_init__(self) -> None:
        self._ids, self._tokens = count(self.first_producer_id), count()
        self.fail_over()

    def __getitem__(self, transactional_id: str) -> Transaction:
        return self.shard.transactions[transactional_id]

    def state(self, transactional_id: str = "t") -> TransactionState:
        return self[transactional_id].state

    def fail_over(self) -> None:
        """Load another shard from the log. What was not in the log is lost, and all markers are due again."""
        self.shard = TransactionShard(
            self.config, lambda: next(self._ids), lambda group_id: OFFSETS, version=lambda: self.version
        )
        self.timers, self.markers = {}, []
        for key, value in self.log:
            self.shard.replay(_record(key, value))
        self._apply(self.shard.loaded(self.now))

    def send(self, request: Message, api_version: int) -> Any:
        """Send one request, and return its answer as the client decodes it."""
        token = next(self._tokens)
        effects = self.shard.handle(request, RequestContext(token, api_version), self.now)
        self._apply(effects)
        assert list(effects.replies) == [token]
        return _as_sent(effects.replies[token], api_version)

    def _apply(self, effects: TransactionEffects) -> None:
        for record in effects.records:
            key, value = record.key, record.value
            assert isinstance(key, TransactionLogKey)
            assert isinstance(value, TransactionLogValue | None)
            written = (encode_key(key), None if value is None else encode_value(value, min(self.version, 1)))
            self.log.append(written)
            self.shard.replay(_record(*written))
        for timer, at in effects.timers.items():
            if at is None:
                self.timers.pop(timer, None)
            else:
                self.timers[timer] = at
        self.markers += effects.markers

    def advance(self, ms: Millis) -> None:
        """Move time forward, and fire what is due, in order."""
        ends_at = self.now + ms
        while due := [(at, repr(timer), timer) for timer, at in self.timers.items() if at <= ends_at]:
            at, _, timer = min(due, key=lambda one: one[:2])
            self.now = max(self.now, at)
            del self.timers[timer]
            self._apply(self.shard.fire(timer, self.now))
        self.now = ends_at

    def mark(self, *partitions: TopicPartition) -> None:
        """Report the first due markers as written to these partitions, or to all."""
        first = self.markers[0]
        done = frozenset(partitions) or first.partitions
        self._apply(self.shard.marked(first.transactional_id, first.producer_id, first.epoch, done, self.now))
        if self[first.transactional_id].state.title.startswith("Complete"):
            self.markers.pop(0)

    # Requests

    def init(
        self,
        transactional_id: str = "t",
        producer: Producer = (-1, -1),
        timeout_ms: Millis = 60_000,
        api_version: int = 5,
    ) -> Producer | ErrorCode:
        """Return the producer ID and epoch, or the error."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
        answer: InitProducerIdResponse = self.send(request, api_version)
        if answer.error_code:
            assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
            return ErrorCode(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    def started(self, transactional_id: str = "t", **options: Any) -> Producer:
        """Return a new producer."""
        producer = self.init(transactional_id, **options)
        assert not isinstance(producer, ErrorCode), producer
        return producer

    def add(
        self, producer: Producer, *partitions: TopicPartition, transactional_id: str = "t", api_version: int = 3
    ) -> ErrorCode:
        """Add partitions as a client does it, in a version below 4, or as a broker for one transaction."""
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=[number]) for topic, number in partitions]
        if api_version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=topics,
            )
            answer: AddPartitionsToTxnResponse = self.send(request, api_version)
            results = answer.results_by_topic_v3_and_below
        else:
            one = AddPartitionsToTxnTransaction(
                transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], topics=topics
            )
            answer = self.send(AddPartitionsToTxnRequest(transactions=[one]), api_version)
            [result] = answer.results_by_transaction
            results = result.topic_results
        codes = {each.partition_error_code for topic in results for each in topic.results_by_partition}
        assert len(codes) == 1
        return ErrorCode(codes.pop())

    def verify(self, producer: Producer, *partitions: TopicPartition, transactional_id: str = "t") -> list[ErrorCode]:
        """Ask whether partitions are in the transaction, as a broker does it for an old client."""
        one = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=[number]) for topic, number in partitions],
        )
        answer: AddPartitionsToTxnResponse = self.send(AddPartitionsToTxnRequest(transactions=[one]), 4)
        [result] = answer.results_by_transaction
        return [
            ErrorCode(each.partition_error_code) for one in result.topic_results for each in one.results_by_partition
        ]

    def add_offsets(self, producer: Producer, transactional_id: str = "t", api_version: int = 4) -> ErrorCode:
        """Add the offsets of a group."""
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], group_id="g"
        )
        answer: AddOffsetsToTxnResponse = self.send(request, api_version)
        return ErrorCode(answer.error_code)

    def end(
        self, producer: Producer, *, commit: bool, transactional_id: str = "t", api_version: int = 5
    ) -> Producer | ErrorCode:
        """End a transaction; return the producer ID and epoch of the next one (-1 before version 5), or the error."""
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
        answer: EndTxnResponse = self.send(request, api_version)
        told = answer.producer_id, answer.producer_epoch
        if answer.error_code:
            assert told == (-1, -1)
            return ErrorCode(answer.error_code)
        return told


def _record(key: bytes, value: bytes | None) -> Record:
    read = decode_key(key)
    assert read is not None
    return Record(read, None if value is None else decode_value(value))


def _as_sent(message: _M, api_version: int) -> _M:
    return decode(type(message), api_version, encode(message, api_version))
