"""ListTransactions: list the transactions of one broker (KIP-664)."""

from kohort.wire.codec import (
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    since,
    struct,
)


@message(key=66, versions=(0, 2), flexible=0)
class ListTransactionsRequest(Message):
    """List transactions that match all filters; an empty filter matches every transaction."""

    state_filters: list[String] = array()
    producer_id_filters: list[Int64] = array()
    duration_filter: Int64 = since(1, default=-1)  # KIP-994: minimum age in milliseconds
    transactional_id_pattern: NullableString = since(2, default=None)  # KIP-1152: regular expression (RE2)


@struct
class TransactionState(Struct):
    """State of one transactional ID."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


@message(key=66, versions=(0, 2), flexible=0)
class ListTransactionsResponse(Message):
    """Transactions, and the names among the filters that are no states."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = array()
    transaction_states: list[TransactionState] = array()
