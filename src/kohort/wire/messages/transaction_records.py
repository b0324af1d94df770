"""Schemas of the records of `__transaction_state` that Apache Kafka 4.3 writes, and of transaction markers.

Tools for Kafka can read Kohort's records, and vice versa. A record without a value deletes its key.
"""

from kohort.wire.codec import (
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    array,
    message,
    since,
    struct,
)


@message(key=0, versions=(0, 0))
class TransactionLogKey(Message):
    """Key of the state of a transactional ID."""

    transactional_id: String = ""


@struct
class PartitionsSchema(Struct):
    """Partitions of one topic in a transaction."""

    topic: String = ""
    partition_ids: list[Int32] = array()


@message(key=0, versions=(0, 1), flexible=1)
class TransactionLogValue(Message):
    """State of a transactional ID.

    The previous producer ID is the one before the last record, and the next one is the ID after the
    transaction that ends, because the epochs of the current one are used up (KIP-890).
    """

    producer_id: Int64 = 0
    previous_producer_id: Int64 = since(1, default=-1, ignorable=True, tag=0)
    next_producer_id: Int64 = since(1, default=-1, ignorable=True, tag=1)
    producer_epoch: Int16 = 0
    next_producer_epoch: Int16 = since(1, default=-1, ignorable=True, tag=3)
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: list[PartitionsSchema] | None = since(0, nullable=0)
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Int16 = since(1, default=0, ignorable=True, tag=2)


@message(key=-1, versions=(0, 0))
class EndTxnMarker(Message):
    """Value of a transaction marker, the control record that ends a producer's transaction in a partition."""

    coordinator_epoch: Int32 = 0
