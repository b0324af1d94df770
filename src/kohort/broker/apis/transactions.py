"""Requests to transaction coordinators, passed to the shard of the transactional ID; and those that span shards."""

from collections.abc import Callable, Iterable
from typing import Protocol

from kohort.broker.apis.gather import Gather
from kohort.broker.logs import INTERNAL_TOPICS, Topics
from kohort.broker.net import Call
from kohort.broker.transactions import (
    LateRequests,
    MarkingParts,
    TransactionCoordinator,
    all_markers,
    all_partitions,
    append_marker,
    refusal,
)
from kohort.coordinator import RequestContext
from kohort.coordinator.transactions import OF_BROKERS_FROM, TransactionShard
from kohort.errors import ErrorCode
from kohort.model import Millis, TopicPartition
from kohort.wire.batches import Marker
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kohort.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kohort.wire.messages.end_txn import EndTxnRequest
from kohort.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kohort.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WriteTxnMarkersRequest,
)


class Dependencies(MarkingParts, Protocol):
    """The parts of the broker that this module uses."""

    late_requests: LateRequests
    transactions: TransactionCoordinator
    topics: Topics

    def new_transaction_shard(self) -> TransactionShard: ...

    def now(self) -> Millis: ...


def of_one(broker: Dependencies, call: Call, request: AddOffsetsToTxnRequest | EndTxnRequest) -> None:
    """Handle AddOffsetsToTxn and EndTxn."""
    if broker.late_requests.refuses(call, request):
        return
    shard = broker.transactions.shard(request.transactional_id)
    if shard is None:
        call.reply(refusal(request, call.version, ErrorCode.NOT_COORDINATOR))
    else:
        shard.handle(request, call, RequestContext(call, call.version))


def add_partitions(broker: Dependencies, call: Call, request: AddPartitionsToTxnRequest) -> None:
    """Add partitions to a transaction, or verify that they are in it, for one producer or, from v4, for several.

    All partitions must exist. Otherwise, those that do are not tried.
    """
    if call.version >= OF_BROKERS_FROM:
        _add_of_many(broker, call, request)
        return
    if broker.late_requests.refuses(call, request):
        return
    topics = request.v3_and_below_topics
    refused = _refused(topics, {p for p in _partitions(topics) if not _exists(broker, p)}, internal=True)
    shard = broker.transactions.shard(request.v3_and_below_transactional_id)
    if refused is not None:
        call.reply(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=refused))
    elif shard is None:
        call.reply(refusal(request, call.version, ErrorCode.NOT_COORDINATOR))
    else:
        shard.handle(request, call, RequestContext(call, call.version))


def _add_of_many(broker: Dependencies, call: Call, request: AddPartitionsToTxnRequest) -> None:
    ones: dict[str, AddPartitionsToTxnTransaction] = {}
    for one in request.transactions:
        ones.setdefault(one.transactional_id, one)  # as in Kafka, IDs are the keys of the list

    def join(answers: list[AddPartitionsToTxnResponse]) -> None:
        results = [result for answer in answers for result in answer.results_by_transaction]
        call.reply(AddPartitionsToTxnResponse(results_by_transaction=results))

    gather = Gather(len(ones), join, AddPartitionsToTxnResponse)
    for place, one in enumerate(ones.values()):
        part = AddPartitionsToTxnRequest(transactions=[one])
        waiter = gather.waiter(place, part, call.version)
        shard, refused = broker.transactions.shard(one.transactional_id), _unknown(broker, one)
        if refused is not None:
            waiter.reply(refused)
        elif shard is None:
            waiter.reply(refusal(part, call.version, ErrorCode.NOT_COORDINATOR))
        else:
            shard.handle(part, waiter, RequestContext(waiter, call.version))


def _unknown(broker: Dependencies, one: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResponse | None:
    missing = {partition for partition in _partitions(one.topics) if not _exists(broker, partition)}
    refused = _refused(one.topics, missing, internal=False)
    if refused is None:
        return None
    result = AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=refused)
    return AddPartitionsToTxnResponse(results_by_transaction=[result])


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _exists(broker: Dependencies, partition: TopicPartition) -> bool:
    topic = broker.topics.named(partition.topic)
    return topic is not None and 0 <= partition.partition < topic.partitions


def _refused(
    topics: list[AddPartitionsToTxnTopic], unknown: set[TopicPartition], *, internal: bool
) -> list[AddPartitionsToTxnTopicResult] | None:
    """Return the results if not all partitions can be added, else None.

    With `internal`, internal topics are closed, too: no client may write to them.
    """

    def code(partition: TopicPartition) -> ErrorCode:
        if internal and partition.topic in INTERNAL_TOPICS:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition in unknown else ErrorCode.NONE

    codes = {partition: code(partition) for partition in _partitions(topics)}
    if not any(codes.values()):
        return None
    results = all_partitions(topics, ErrorCode.OPERATION_NOT_ATTEMPTED)
    for topic in results:
        for result in topic.results_by_partition:
            result.partition_error_code = codes[TopicPartition(topic.name, result.partition_index)] or (
                ErrorCode.OPERATION_NOT_ATTEMPTED
            )
    return results


def list_all(broker: Dependencies, call: Call, request: ListTransactionsRequest) -> None:
    """List the transactional IDs of every shard. As in Kafka, there are none while a shard loads."""
    shards = list(broker.transactions)

    def join(answers: list[ListTransactionsResponse]) -> None:
        error = next((answer for answer in answers if answer.error_code), None)
        if error is not None:
            call.reply(error)
            return
        response = ListTransactionsResponse()
        for answer in answers:
            response.transaction_states += answer.transaction_states
            response.unknown_state_filters = answer.unknown_state_filters
        call.reply(response)

    if not shards:
        effects = broker.new_transaction_shard().handle(request, RequestContext(call, call.version), broker.now())
        call.reply(effects.replies[call])
        return
    gather = Gather(len(shards), join, ListTransactionsResponse)
    for place, shard in enumerate(shards):
        waiter = gather.waiter(place, request, call.version)
        shard.handle(request, waiter, RequestContext(waiter, call.version))


def describe(broker: Dependencies, call: Call, request: DescribeTransactionsRequest) -> None:
    """Describe each transactional ID from its own shard, in the order of the request."""
    ids = list(dict.fromkeys(request.transactional_ids))

    def join(answers: list[DescribeTransactionsResponse]) -> None:
        states = [state for answer in answers for state in answer.transaction_states]
        call.reply(DescribeTransactionsResponse(transaction_states=states))

    gather = Gather(len(ids), join, DescribeTransactionsResponse)
    for place, transactional_id in enumerate(ids):
        part = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        waiter = gather.waiter(place, part, call.version)
        shard = broker.transactions.shard(transactional_id)
        if shard is None:
            code = ErrorCode.NOT_COORDINATOR if transactional_id else ErrorCode.INVALID_REQUEST
            waiter.reply(refusal(part, call.version, code))
        else:
            shard.handle(part, waiter, RequestContext(waiter, call.version))


def write_markers(broker: Dependencies, call: Call, request: WriteTxnMarkersRequest) -> None:
    """Write markers for a coordinator on another broker, or for an operator who ends a hanging transaction."""
    response = all_markers(request, ErrorCode.NONE)
    left = sum(len(topic.partition_indexes) for marker in request.markers for topic in marker.topics)
    if not left:
        call.reply(response)
        return

    def answered(result: WritableTxnMarkerPartitionResult, code: ErrorCode) -> None:
        nonlocal left
        result.error_code = code
        left -= 1
        if not left:
            call.reply(response)

    for marker, results in zip(request.markers, response.markers, strict=True):
        for topic in results.topics:
            for result in topic.partitions:
                _write(broker, marker, topic.name, result, answered)


def _write(
    broker: Dependencies,
    marker: WritableTxnMarker,
    topic: str,
    result: WritableTxnMarkerPartitionResult,
    answered: Callable[[WritableTxnMarkerPartitionResult, ErrorCode], None],
) -> None:
    append_marker(
        broker,
        TopicPartition(topic, result.partition_index),
        marker.producer_id,
        marker.producer_epoch,
        Marker(marker.transaction_result, marker.coordinator_epoch),
        marker.transaction_version,
        lambda code: answered(result, code),
    )
