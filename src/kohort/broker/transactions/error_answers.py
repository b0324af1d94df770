"""The response that carries an error for a whole request to a transaction coordinator."""

from typing import assert_never

from kohort.coordinator.transactions import OF_BROKERS_FROM
from kohort.errors import ErrorCode
from kohort.wire.codec import Message
from kohort.wire.messages import describe_transactions
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kohort.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from kohort.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kohort.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TransactionRequest = (
    InitProducerIdRequest
    | AddPartitionsToTxnRequest
    | AddOffsetsToTxnRequest
    | EndTxnRequest
    | ListTransactionsRequest
    | describe_transactions.DescribeTransactionsRequest
)


def refusal(request: Message, version: int, code: ErrorCode) -> Message:
    """Return the response that fails the whole request with `code`. `request` is one of TransactionRequest."""
    return _refusal(request, version, code)  # type: ignore[arg-type]  # tokens carry any message


def _refusal(request: TransactionRequest, version: int, code: ErrorCode) -> Message:
    match request:
        case InitProducerIdRequest():
            return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        case AddPartitionsToTxnRequest():
            if version < OF_BROKERS_FROM:
                topics = all_partitions(request.v3_and_below_topics, code)
                return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
            return AddPartitionsToTxnResponse(
                results_by_transaction=[
                    AddPartitionsToTxnResult(
                        transactional_id=one.transactional_id, topic_results=all_partitions(one.topics, code)
                    )
                    for one in request.transactions
                ]
            )
        case AddOffsetsToTxnRequest():
            return AddOffsetsToTxnResponse(error_code=code)
        case EndTxnRequest():
            return EndTxnResponse(error_code=code)
        case ListTransactionsRequest():
            return ListTransactionsResponse(error_code=code)
        case describe_transactions.DescribeTransactionsRequest():
            return describe_transactions.DescribeTransactionsResponse(
                transaction_states=[
                    describe_transactions.TransactionState(error_code=code, transactional_id=transactional_id)
                    for transactional_id in request.transactional_ids
                ]
            )
        case _:
            assert_never(request)


def all_partitions(topics: list[AddPartitionsToTxnTopic], code: ErrorCode) -> list[AddPartitionsToTxnTopicResult]:
    """Return the same error for every partition."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]


def all_markers(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    """Return the same code for every partition of every marker."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=number, error_code=code)
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
