"""Guards of requests about transactions."""

from kohort.broker.access.request_access import RequestAccess
from kohort.broker.groups import refusal as group_refusal
from kohort.broker.logs import INTERNAL_TOPICS
from kohort.broker.transactions import all_markers, all_partitions, refusal
from kohort.coordinator.transactions import OF_BROKERS_FROM
from kohort.errors import ErrorCode
from kohort.security import Operation
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kohort.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from kohort.wire.messages.end_txn import EndTxnRequest
from kohort.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kohort.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kohort.wire.messages.write_txn_markers import WriteTxnMarkersRequest

_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def add_partitions(access: RequestAccess, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnRequest | None:
    """Add partitions that the client may write to, or none; a broker may add any."""
    version = access.call.version
    if version >= OF_BROKERS_FROM:
        if access.cluster(Operation.CLUSTER_ACTION):
            return request
        access.refuse(AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return None
    if not access.transactional_id(Operation.WRITE, request.v3_and_below_transactional_id):
        access.refuse(refusal(request, version, _DENIED))
        return None
    topics = request.v3_and_below_topics
    denied = {topic.name for topic in topics if not access.topic(Operation.WRITE, topic.name)}
    if not denied:
        return request
    results = all_partitions(topics, ErrorCode.OPERATION_NOT_ATTEMPTED)
    for topic in results:
        for result in topic.results_by_partition:
            if topic.name in denied or topic.name in INTERNAL_TOPICS:
                result.partition_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not access.exists(topic.name):
                result.partition_error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    access.refuse(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))
    return None


def add_offsets(access: RequestAccess, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnRequest | None:
    """Add a group that the client may read."""
    if not access.transactional_id(Operation.WRITE, request.transactional_id):
        access.refuse(refusal(request, access.call.version, _DENIED))
        return None
    if not access.group(Operation.READ, request.group_id):
        access.refuse(refusal(request, access.call.version, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return None
    return request


def end(access: RequestAccess, request: EndTxnRequest) -> EndTxnRequest | None:
    """End a transaction of an ID that the client may write to."""
    if access.transactional_id(Operation.WRITE, request.transactional_id):
        return request
    access.refuse(refusal(request, access.call.version, _DENIED))
    return None


def write_markers(access: RequestAccess, request: WriteTxnMarkersRequest) -> WriteTxnMarkersRequest | None:
    """Write markers for an operator who may alter the cluster (KIP-664), or for another broker."""
    if access.cluster(Operation.ALTER) or access.cluster(Operation.CLUSTER_ACTION):
        return request
    access.refuse(all_markers(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    return None


def commit_offsets(access: RequestAccess, request: TxnOffsetCommitRequest) -> TxnOffsetCommitRequest | None:
    """Commit offsets in a group that the client may read, for topics that it may read."""
    version = access.call.version
    if not access.transactional_id(Operation.WRITE, request.transactional_id):
        access.refuse(group_refusal(request, version, _DENIED))
        return None
    if not access.group(Operation.READ, request.group_id):
        access.refuse(group_refusal(request, version, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return None

    def refused(topic: TxnOffsetCommitRequestTopic) -> TxnOffsetCommitResponseTopic:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
                for one in topic.partitions
            ],
        )

    return access.keep_allowed(
        request,
        "topics",
        lambda topic: access.topic(Operation.READ, topic.name),
        refused,
        TxnOffsetCommitResponse(),
        "topics",
        refused_first=True,
    )


def describe(access: RequestAccess, request: DescribeTransactionsRequest) -> DescribeTransactionsRequest | None:
    """Describe IDs that the client may describe, with those of their topics that it may describe."""

    def hide(response: DescribeTransactionsResponse) -> None:
        for state in response.transaction_states:
            state.topics = [topic for topic in state.topics if access.topic(Operation.DESCRIBE, topic.topic)]

    access.amend(hide)
    return access.keep_allowed(
        request,
        "transactional_ids",
        lambda transactional_id: access.transactional_id(Operation.DESCRIBE, transactional_id),
        lambda transactional_id: TransactionState(error_code=_DENIED, transactional_id=transactional_id),
        DescribeTransactionsResponse(),
        "transaction_states",
    )


def list_all(access: RequestAccess, request: ListTransactionsRequest) -> ListTransactionsRequest | None:
    """List the IDs that the client may describe."""

    def hide(response: ListTransactionsResponse) -> None:
        response.transaction_states = [
            state
            for state in response.transaction_states
            if access.transactional_id(Operation.DESCRIBE, state.transactional_id)
        ]

    access.amend(hide)
    return request
