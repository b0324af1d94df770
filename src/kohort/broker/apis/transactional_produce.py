"""Verification of a Produce request: its transactional batches must be part of an open transaction (KIP-890).

A producer with transaction.version 2 sends no AddPartitionsToTxn: its partitions are added here.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Protocol

from kohort.broker.config import BrokerConfig
from kohort.broker.logs import INTERNAL_TOPICS, Topics
from kohort.broker.transactions import Producers, Question, TransactionCoordinator, Verdicts, is_obsolete
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


_Error = tuple[ErrorCode, str | None]
Refused = Mapping[int, _Error]
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


class _Batch:
    """A transactional batch and its partition, as they are when the producer's turn comes."""

    def __init__(self, data: PartitionProduceData, topic: Topic, log: PartitionLog | None, header: BatchHeader) -> None:
        self.data = data
        self.topic = topic
        self.partition = TopicPartition(topic.name, data.index)
        self.log = log
        """Log of the partition; None if another broker leads it."""
        self.header = header
        self.was_asked = False
        """Whether its partition was not known to be in the transaction, so that the coordinator was asked."""
        self.before: Producer | None = None

    @property
    def known(self) -> Producer | None:
        """The log's state of the producer."""
        return None if self.log is None else self.log.producers.get(self.header.producer_id)

    @property
    def is_open(self) -> bool:
        """Whether the log has records of the producer's current transaction."""
        known = self.known
        return known is not None and known.transaction_start is not None and known.epoch == self.header.producer_epoch


def verify(broker: Dependencies, request: ProduceRequest, version: int, then: Callable[[Refused], None]) -> None:
    """Call `then`, now or later, with the batches to reject because they are not in an open transaction.

    Append the others before anything else happens: a marker or another leader makes the result obsolete.
    """
    producers = {(batch.header.producer_id, batch.header.producer_epoch) for batch in _transactional(broker, request)}
    if len(producers) > 1:
        detail = "The batches of one transactional request have several producer IDs or epochs."
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING, detail
        then({id(data): error for topic in request.topic_data for data in topic.partition_data})
    elif not producers:
        then({})
    else:
        [(producer_id, epoch)] = producers
        turn = partial(_verify, broker, request, version, producer_id, epoch, then)
        broker.transactions.verification.in_turn(producer_id, turn)


def _verify(
    broker: Dependencies,
    request: ProduceRequest,
    version: int,
    producer_id: int,
    epoch: int,
    then: Callable[[Refused], None],
) -> None:
    verification, producers = broker.transactions.verification, _producers(version)
    batches = list(_transactional(broker, request))
    if producers is not Producers.ADDING and not broker.config.flag("transaction.partition.verification.enable"):
        batches = []

    def done(verdicts: Verdicts) -> None:
        try:
            then(_refused(broker, batches, verdicts, producers))
        finally:
            verification.finished(producer_id)

    unknown = [batch for batch in batches if batch.log is not None and not batch.is_open]
    if not unknown:
        done({})
        return

    def remember() -> None:
        for batch in unknown:
            batch.was_asked, batch.before = True, batch.known

    assert request.transactional_id is not None
    partitions = {batch.partition for batch in unknown}
    verification.ask(Question(request.transactional_id, producer_id, epoch, producers, partitions, remember), done)


def _transactional(broker: Dependencies, request: ProduceRequest) -> Iterator[_Batch]:
    """Yield the transactional batches of topics that clients write."""
    for of_topic in request.topic_data:
        topic = broker.topics.named(of_topic.name) if of_topic.name else broker.topics.with_id(of_topic.topic_id)
        if topic is None or topic.name in INTERNAL_TOPICS:
            continue
        for data in of_topic.partition_data:
            if data.records is None or not is_transactional(data.records):
                continue
            header = read_header(data.records)
            if header.producer_id >= 0:
                yield _Batch(data, topic, broker.topics.log(topic, data.index), header)


def _refused(broker: Dependencies, batches: list[_Batch], verdicts: Verdicts, producers: Producers) -> Refused:
    errors = ((batch, _error(broker, batch, verdicts, producers)) for batch in batches)
    return {id(batch.data): error for batch, error in errors if error is not None}


def _error(broker: Dependencies, batch: _Batch, verdicts: Verdicts, producers: Producers) -> _Error | None:
    """Return the reason to reject a batch; None if it may be appended, or has no log here to be appended to."""
    log = broker.topics.log(batch.topic, batch.data.index)
    if log is None:
        return None
    if log is not batch.log:
        # This broker has become the leader since the producer's turn came. Nobody has added the partition to the
        # transaction, or the log may have got a marker from another leader. The producer sends the batch again.
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, None
    if batch.was_asked:
        error = _known_to(verdicts[batch.partition], producers)
        if error is not None or not is_obsolete(producers, batch.before, batch.known):
            return error
    elif batch.is_open:
        return None
    # A marker was written after the coordinator was asked, or while it was asked about another partition: the
    # transaction is over.
    return ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"


def _known_to(code: ErrorCode, producers: Producers) -> _Error | None:
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
