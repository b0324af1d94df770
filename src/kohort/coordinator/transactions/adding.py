"""AddPartitionsToTxn and AddOffsetsToTxn: make partitions part of a transaction before they get records of it."""

from collections.abc import Iterable, Set

from kohort.coordinator.effects import RequestContext
from kohort.coordinator.transactions.effects import TransactionEffects, TransactionTimeout
from kohort.coordinator.transactions.states import ENDING, TransactionState
from kohort.coordinator.transactions.transaction import EPOCH_PER_TRANSACTION, Transaction
from kohort.coordinator.transactions.transactions import Transactions
from kohort.errors import ErrorCode
from kohort.model import Millis, TopicPartition
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kohort.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_FIRST_WITH_FENCED = 2
"""First version whose clients know PRODUCER_FENCED."""
_FIRST_OF_BROKERS = 4
_FIRST_WITH_EPOCHS = 5
"""First version that brokers send for producers with transaction.version 2."""


def add_partitions(
    transactions: Transactions,
    request: AddPartitionsToTxnRequest,
    context: RequestContext,
    now: Millis,
    out: TransactionEffects,
) -> None:
    """Answer an AddPartitionsToTxn of any version."""
    version = EPOCH_PER_TRANSACTION if context.api_version >= _FIRST_WITH_EPOCHS else 0
    if context.api_version >= _FIRST_OF_BROKERS:
        results = [_add_to_one(transactions, one, version, now, out) for one in _merged(request.transactions)]
        out.replies[context.token] = AddPartitionsToTxnResponse(results_by_transaction=results)
        return
    one = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    code = _add(transactions, one, _partitions(one.topics), version, now, out)
    topics = _results(one.topics, _known_to(code, context.api_version))
    out.replies[context.token] = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def add_offsets(
    transactions: Transactions,
    request: AddOffsetsToTxnRequest,
    context: RequestContext,
    now: Millis,
    out: TransactionEffects,
) -> None:
    """Answer an AddOffsetsToTxn: the group's partition of `__consumer_offsets` becomes part of the transaction."""
    one = AddPartitionsToTxnTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
    )
    code = _add(transactions, one, {transactions.offsets_partition(request.group_id)}, 0, now, out)
    out.replies[context.token] = AddOffsetsToTxnResponse(error_code=_known_to(code, context.api_version))


def _add_to_one(
    transactions: Transactions,
    one: AddPartitionsToTxnTransaction,
    version: int,
    now: Millis,
    out: TransactionEffects,
) -> AddPartitionsToTxnResult:
    partitions = _partitions(one.topics)
    if one.verify_only:
        found = _verified(transactions, one)
        if isinstance(found, ErrorCode):
            topics = _results(one.topics, found)
        else:
            topics = _results(one.topics, ErrorCode.TRANSACTION_ABORTABLE, found.partitions & partitions)
    else:
        topics = _results(one.topics, _add(transactions, one, partitions, version, now, out))
    return AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=topics)


def _add(
    transactions: Transactions,
    request: AddPartitionsToTxnTransaction,
    partitions: Set[TopicPartition],
    version: int,
    now: Millis,
    out: TransactionEffects,
) -> ErrorCode:
    """Add partitions to the open transaction, or begin one with them."""
    found = _verified(transactions, request)
    if isinstance(found, ErrorCode):
        return found
    begins = found.state is not TransactionState.ONGOING
    if not begins and partitions <= found.partitions:
        return ErrorCode.NONE
    started_at = now if begins else found.started_at
    assert started_at is not None
    after = found.becomes(
        TransactionState.ONGOING,
        now,
        partitions=found.partitions | partitions,
        started_at=started_at,
        version=version,
    )
    transactions.write(after, out)
    out.timers[TransactionTimeout(found.transactional_id)] = started_at + found.timeout_ms
    return ErrorCode.NONE


def _verified(transactions: Transactions, request: AddPartitionsToTxnTransaction) -> Transaction | ErrorCode:
    """Return the transactional ID if its current producer sent the request and no transaction of it is ending."""
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    current = transactions.by_id.get(request.transactional_id)
    if current is None or current.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if current.state in ENDING else current


def _merged(requests: Iterable[AddPartitionsToTxnTransaction]) -> Iterable[AddPartitionsToTxnTransaction]:
    """Return one request per transactional ID, the first: as in Kafka, IDs are the keys of the list."""
    by_id: dict[str, AddPartitionsToTxnTransaction] = {}
    for one in requests:
        by_id.setdefault(one.transactional_id, one)
    return by_id.values()


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions)


def _results(
    topics: Iterable[AddPartitionsToTxnTopic], code: ErrorCode, accepted: Set[TopicPartition] = frozenset()
) -> list[AddPartitionsToTxnTopicResult]:
    """Return `code` for each partition that is not accepted."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=number,
                    partition_error_code=ErrorCode.NONE if (topic.name, number) in accepted else code,
                )
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]


def _known_to(code: ErrorCode, api_version: int) -> ErrorCode:
    """Return the code for clients of that version."""
    fenced = code is ErrorCode.PRODUCER_FENCED and api_version < _FIRST_WITH_FENCED
    return ErrorCode.INVALID_PRODUCER_EPOCH if fenced else code
