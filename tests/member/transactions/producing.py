"""A transactional producer whose coordinators a test plays."""

from __future__ import annotations

from typing import Any, TypeVar

from kohort.errors import ErrorCode, KafkaError
from kohort.member import OffsetAndMetadata
from kohort.member.transactions import (
    Actions,
    ConsumerGroupMetadata,
    Coordinator,
    Send,
    TransactionalProducer,
    TransactionConfig,
    TransactionState,
)
from kohort.model import TopicPartition
from kohort.wire.codec import Message
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kohort.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kohort.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

S = TransactionState
E = ErrorCode
_M = TypeVar("_M", bound=Message)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = ConsumerGroupMetadata("g", 3, "member", "instance")
OFFSETS = {T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(7, "note", 2)}
INITIALIZE, SEND_OFFSETS, COMMIT, ABORT = 1, 2, 3, 4


class Producing:
    """The state machine, the time, and what it asked for last."""

    def __init__(self, version: int = 2, *, bumps_epochs: bool = True) -> None:
        self.machine = TransactionalProducer(TransactionConfig("tx", 30_000, 100, 1_000))
        self.now = 0
        self.sent: Send | None = None
        self.find: Coordinator | None = None
        self.settled: dict[int, KafkaError | None] = {}
        self.discarded: KafkaError | None = None
        self.retries_discarded = False
        self.wakes = 0
        self.retry_at: int | None = None
        self._bumps_epochs = bumps_epochs
        self.machine.features(version)

    @property
    def state(self) -> TransactionState:
        return self.machine.state

    def do(self, actions: Actions) -> Producing:
        self.settled |= dict(actions.settled)
        if actions.discard is not None:
            self.discarded, self.retries_discarded = actions.discard, actions.discard_retries
        self.wakes += actions.wake
        self.find = actions.find or self.find
        self.sent = actions.send or self.sent
        self.retry_at = actions.retry_at
        return self

    # -- what the application and the sender do

    def initialize(self) -> Producing:
        return self.do(self.machine.initialize(INITIALIZE, self.now))

    def add(self, *partitions: TopicPartition) -> Producing:
        return self.do(self.machine.add_partitions(partitions, self.now))

    def send_offsets(self, call: int = SEND_OFFSETS) -> Producing:
        return self.do(self.machine.send_offsets(call, OFFSETS, GROUP, self.now))

    def commit(self) -> Producing:
        return self.do(self.machine.commit(COMMIT, self.now))

    def abort(self) -> Producing:
        return self.do(self.machine.abort(ABORT, self.now))

    def all_written(self) -> Producing:
        return self.do(self.machine.all_written(self.now))

    def lose(self, code: ErrorCode = E.MESSAGE_TOO_LARGE) -> Producing:
        """A batch fails for good."""
        return self.do(self.machine.batch_failed(KafkaError(code), self.now))

    # -- what the coordinators do

    def found(self) -> Producing:
        assert self.find is not None
        coordinator, self.find = self.find, None
        actions = self.machine.coordinator_found(coordinator, self.now, bumps_epochs=self._bumps_epochs)
        return self.do(actions)

    def not_found(self, code: ErrorCode) -> Producing:
        assert self.find is not None
        coordinator, self.find = self.find, None
        return self.do(self.machine.coordinator_unavailable(coordinator, KafkaError(code), self.now))

    def request(self, kind: type[_M]) -> _M:
        """The request that is under way, of that kind."""
        assert self.sent is not None
        assert isinstance(self.sent.message, kind), self.sent.message
        return self.sent.message

    def answer(self, message: Message) -> Producing:
        assert self.sent is not None
        sent, self.sent = self.sent, None
        return self.do(self.machine.responded(sent.request, message, self.now))

    def no_answer(self, code: ErrorCode = E.NETWORK_EXCEPTION) -> Producing:
        assert self.sent is not None
        sent, self.sent = self.sent, None
        return self.do(self.machine.request_failed(sent.request, KafkaError(code), self.now))

    def initialized(self, epoch: int = 0, code: ErrorCode = E.NONE, producer_id: int = 9) -> Producing:
        self.request(InitProducerIdRequest)
        return self.answer(InitProducerIdResponse(error_code=code, producer_id=producer_id, producer_epoch=epoch))

    def added(self, *codes: ErrorCode) -> Producing:
        asked = self.request(AddPartitionsToTxnRequest).v3_and_below_topics
        partitions = [(topic.name, number) for topic in asked for number in topic.partitions]
        results = [
            AddPartitionsToTxnTopicResult(
                name=name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
                ],
            )
            for (name, number), code in zip(partitions, codes or [E.NONE] * len(partitions), strict=True)
        ]
        return self.answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))

    def group_added(self, code: ErrorCode = E.NONE) -> Producing:
        self.request(AddOffsetsToTxnRequest)
        return self.answer(AddOffsetsToTxnResponse(error_code=code))

    def offsets_committed(self, *codes: ErrorCode) -> Producing:
        asked = self.request(TxnOffsetCommitRequest).topics
        numbers = [partition.partition_index for topic in asked for partition in topic.partitions]
        entries = [
            TxnOffsetCommitResponsePartition(partition_index=number, error_code=code)
            for number, code in zip(numbers, codes or [E.NONE] * len(numbers), strict=True)
        ]
        return self.answer(TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="t", partitions=entries)]))

    def ended(self, code: ErrorCode = E.NONE, **fields: Any) -> Producing:
        self.request(EndTxnRequest)
        return self.answer(EndTxnResponse(error_code=code, **fields))

    def pause(self) -> int:
        """Let the time pass until the next attempt, and return how long that took."""
        assert self.retry_at is not None
        passed, self.now = self.retry_at - self.now, self.retry_at
        self.do(self.machine.fire(self.now))
        return passed


def ready(version: int = 2, *, bumps_epochs: bool = True) -> Producing:
    return Producing(version, bumps_epochs=bumps_epochs).initialize().found().initialized()


def in_transaction(version: int = 2, *, bumps_epochs: bool = True, started: bool = True) -> Producing:
    """A producer that has written to the partition t-0 in its transaction, or nothing so far."""
    producing = ready(version, bumps_epochs=bumps_epochs)
    producing.machine.begin()
    if started:
        producing.add(T0)
        if version < 2:
            producing.added()
    return producing


def committing(version: int = 2, *, bumps_epochs: bool = True) -> Producing:
    return in_transaction(version, bumps_epochs=bumps_epochs).commit().all_written()


def aborting(version: int = 2, *, bumps_epochs: bool = True) -> Producing:
    return in_transaction(version, bumps_epochs=bumps_epochs).abort().all_written()
