"""DescribeTransactions: describe transactions by their transactional IDs (KIP-664)."""

from kohort.wire.codec import Int16, Int32, Int64, Message, String, Struct, array, message, struct


@message(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsRequest(Message):
    """Describe the transactions of these transactional IDs."""

    transactional_ids: list[String] = array()


@struct
class TopicData(Struct):
    """Partitions of one topic in a transaction."""

    topic: String = ""
    partitions: list[Int32] = array()


@struct
class TransactionState(Struct):
    """State of one transactional ID."""

    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = array()


@message(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsResponse(Message):
    """State of each transactional ID."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = array()
