"""AddPartitionsToTxn: add partitions to transactions before records are written to them (KIP-98, KIP-890)."""

from kohort.wire.codec import Bool, Int16, Int32, Int64, Message, String, Struct, array, message, since, struct


@struct
class AddPartitionsToTxnTopic(Struct):
    """Partitions of one topic."""

    name: String = ""
    partitions: list[Int32] = array()


@struct
class AddPartitionsToTxnTransaction(Struct):
    """Partitions to add to one transaction, or to look for in it."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Bool = False  # KIP-890: answer whether the partitions are in the transaction, and add none
    topics: list[AddPartitionsToTxnTopic] = array()


@message(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnRequest(Message):
    """Add partitions to one transaction, or from version 4 on, which only brokers send, to several."""

    transactions: list[AddPartitionsToTxnTransaction] = since(4)
    v3_and_below_transactional_id: String = since(0, until=3)
    v3_and_below_producer_id: Int64 = since(0, until=3)
    v3_and_below_producer_epoch: Int16 = since(0, until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = since(0, until=3)


@struct
class AddPartitionsToTxnPartitionResult(Struct):
    """Result for one partition."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@struct
class AddPartitionsToTxnTopicResult(Struct):
    """Results for one topic's partitions."""

    name: String = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array()


@struct
class AddPartitionsToTxnResult(Struct):
    """Results for one transaction."""

    transactional_id: String = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = array()


@message(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnResponse(Message):
    """Result for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(4, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = since(4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = since(0, until=3)
