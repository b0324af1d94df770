"""ListTransactions and DescribeTransactions (KIP-664, KIP-994, KIP-1152)."""

import re2

from kohort.coordinator.effects import RequestContext
from kohort.coordinator.transactions.effects import TransactionEffects
from kohort.coordinator.transactions.states import BY_TITLE, OTHER_TITLES
from kohort.coordinator.transactions.transaction import Transaction
from kohort.coordinator.transactions.transactions import Transactions
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.messages import describe_transactions, list_transactions

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


def listed(
    transactions: Transactions,
    request: list_transactions.ListTransactionsRequest,
    context: RequestContext,
    now: Millis,
    out: TransactionEffects,
) -> None:
    """List the transactional IDs that match all filters."""
    response = list_transactions.ListTransactionsResponse()
    states = {BY_TITLE[title] for title in request.state_filters if title in BY_TITLE}
    response.unknown_state_filters = [
        title for title in request.state_filters if title not in BY_TITLE and title not in OTHER_TITLES
    ]
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = re2.compile(request.transactional_id_pattern.encode("utf-8", "surrogateescape"), _OPTIONS)
        except re2.error:
            response.error_code = ErrorCode.INVALID_REGULAR_EXPRESSION
            out.replies[context.token] = response
            return
    producer_ids = set(request.producer_id_filters)

    def matches(one: Transaction) -> bool:
        age = now - (-1 if one.started_at is None else one.started_at)
        return (
            (not producer_ids or one.producer_id in producer_ids)
            and (not request.state_filters or one.state in states)
            and (request.duration_filter < 0 or age > request.duration_filter)
            and (
                pattern is None
                or pattern.fullmatch(one.transactional_id.encode("utf-8", "surrogateescape")) is not None
            )
        )

    response.transaction_states = [
        list_transactions.TransactionState(
            transactional_id=one.transactional_id, producer_id=one.producer_id, transaction_state=one.state.title
        )
        for one in transactions.by_id.values()
        if matches(one)
    ]
    out.replies[context.token] = response


def described(
    transactions: Transactions,
    request: describe_transactions.DescribeTransactionsRequest,
    context: RequestContext,
    out: TransactionEffects,
) -> None:
    """Describe transactional IDs."""
    out.replies[context.token] = describe_transactions.DescribeTransactionsResponse(
        transaction_states=[_described(transactions, each) for each in dict.fromkeys(request.transactional_ids)]
    )


def _described(transactions: Transactions, transactional_id: str) -> describe_transactions.TransactionState:
    found = transactions.by_id.get(transactional_id)
    if found is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return describe_transactions.TransactionState(error_code=code, transactional_id=transactional_id)
    assert found.epoch is not None
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(found.partitions):
        by_topic.setdefault(topic, []).append(number)
    return describe_transactions.TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.title,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=-1 if found.started_at is None else found.started_at,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=[
            describe_transactions.TopicData(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()
        ],
    )
