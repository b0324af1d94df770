"""Verification of a Produce request: its transactional batches must be part of an open transaction (KIP-890).

A producer with transaction.version 2 sends no AddPartitionsToTxn: its partitions are added here.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from kohort.broker.config import BrokerConfig
from kohort.broker.logs import INTERNAL_TOPICS, Topics
from kohort.broker.transactions import Producers, Question, TransactionCoordinator, Verdicts
from kohort.errors import ErrorCode
from kohort.log import PartitionLog, Producer, Topic
from kohort.model import TopicPartition
from kohort.wire.batches import BatchHeader, is_transactional, read_header
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig
    topics: Topics
    transactions: TransactionCoordinator


Refused = Mapping[int, tuple[ErrorCode, str | None]]
"""Errors of rejected batches, by `id()` of their PartitionProduceData."""

_KNOWS_ABORTABLE_FROM = 11
_ADDS_FROM = 12
"""First version whose partitions the broker adds to the transaction."""
_UNAVAILABLE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def has_epoch_per_transaction(version: int) -> bool:
    """Return whether a transactional producer that uses this version has a new epoch in each transaction."""
    return version >= _ADDS_FROM


class _Unverified:
    """A batch whose partition is not known to be in the transaction."""

    def __init__(self, data: PartitionProduceData, topic: Topic, log: PartitionLog, header: BatchHeader) -> None:
        self.data = data
        self.topic = topic
        self.partition = TopicPartition(topic.name, data.index)
        self.log = log
        self.header = header
        self.before: Producer | None = None

    @property
    def is_open(self) -> bool:
        """Whether the log has records of the producer's current transaction."""
        known = self.log.producers.get(self.header.producer_id)
        return known is not None and known.transaction_start is not None and known.epoch == self.header.producer_epoch


def verify(broker: Dependencies, request: ProduceRequest, version: int, then: Callable[[Refused], None]) -> None:
    """Call `then`, now or later, with the batches to reject because they are not in an open transaction."""
    batches = list(_transactional(broker, request, version))
    producer_ids = {batch.header.producer_id for batch in batches}
    if len(producer_ids) > 1:
        detail = "The batches of one transactional request have several producer IDs."
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING, detail
        then({id(data): error for topic in request.topic_data for data in topic.partition_data})
    elif not batches:
        then({})
    else:
        (producer_id,) = producer_ids
        turn = partial(_verify, broker, request, version, batches, producer_id, then)
        broker.transactions.verification.in_turn(producer_id, turn)


def _verify(
    broker: Dependencies,
    request: ProduceRequest,
    version: int,
    batches: list[_Unverified],
    producer_id: int,
    then: Callable[[Refused], None],
) -> None:
    verification = broker.transactions.verification

    def done(refused: Refused) -> None:
        try:
            then(refused)
        finally:
            verification.finished(producer_id)

    producers = _producers(version)
    unknown = [batch for batch in batches if not batch.is_open]
    if producers is not Producers.ADDING and not broker.config.flag("transaction.partition.verification.enable"):
        unknown = []
    if not unknown:
        done({})
        return

    def remember() -> None:
        for batch in unknown:
            batch.before = batch.log.producers.get(producer_id)

    assert request.transactional_id is not None
    question = Question(
        request.transactional_id,
        producer_id,
        unknown[0].header.producer_epoch,
        producers,
        {batch.partition for batch in unknown},
        remember,
    )
    verification.ask(question, lambda verdicts: done(_refused(broker, unknown, verdicts, producers)))


def _transactional(broker: Dependencies, request: ProduceRequest, version: int) -> "list[_Unverified]":
    """Return the transactional batches that could be appended, as far as their headers and partitions tell."""
    found = []
    for of_topic in request.topic_data:
        topic = broker.topics.named(of_topic.name) if of_topic.name else broker.topics.with_id(of_topic.topic_id)
        if topic is None or topic.name in INTERNAL_TOPICS:
            continue
        for data in of_topic.partition_data:
            log = broker.topics.log(topic, data.index)
            if log is None or data.records is None or not is_transactional(data.records):
                continue
            header = read_header(data.records)
            if header.producer_id >= 0:
                found.append(_Unverified(data, topic, log, header))
    return found


def _refused(broker: Dependencies, batches: list[_Unverified], verdicts: Verdicts, producers: Producers) -> Refused:
    refused: dict[int, tuple[ErrorCode, str | None]] = {}
    for batch in batches:
        error = _known_to(verdicts[batch.partition], producers)
        current = broker.topics.log(batch.topic, batch.partition.partition)
        if error is None and current is not None and current is not batch.log:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER, None  # another broker led it meanwhile: it may have a marker
        if error is None and batch.log.producers.get(batch.header.producer_id) is not batch.before:
            # A marker was written after the coordinator was asked: the transaction is over.
            error = ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
        if error is not None:
            refused[id(batch.data)] = error
    return refused


def _known_to(code: ErrorCode, producers: Producers) -> tuple[ErrorCode, str | None] | None:
    """Return the error that a producer understands. Coordinators have errors that partitions do not have."""
    if code is ErrorCode.NONE:
        return None
    if code is ErrorCode.INVALID_TXN_STATE:
        return code, "Partition was not added to the transaction"
    if code in _UNAVAILABLE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and producers is not Producers.ADDING):
        # Every client repeats a request with this error, without looking for another leader.
        why = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return ErrorCode.NOT_ENOUGH_REPLICAS, why
    return code, None


def _producers(version: int) -> Producers:
    if version >= _ADDS_FROM:
        return Producers.ADDING
    return Producers.ABORTING if version >= _KNOWS_ABORTABLE_FROM else Producers.OLD
