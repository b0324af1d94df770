"""Producer: batches, partitioning, sending and deliveries."""

from kohort.client.produce.batches import Batch, BatchedRecord, Delivery, RecordMetadata, delivery_of
from kohort.client.produce.failed_deliveries import Failure
from kohort.client.produce.interceptors import ProducerInterceptor, ProducerRecord, SendInterception
from kohort.client.produce.key_hashes import murmur2
from kohort.client.produce.producer import Producer, producer_options
from kohort.client.produce.producer_core import ProducerCore
from kohort.client.produce.record_checks import RECORD_OVERHEAD, check_partition, check_timestamp, record_size
from kohort.client.produce.serialization import Serialization, SerializationError, Serializer
from kohort.client.produce.transaction import (
    OPEN,
    ConsumersOfTransaction,
    Transaction,
    TransactionalConsumer,
    UndecidedConsumers,
    group_of,
    note_failed_abort,
)
from kohort.client.produce.unclosed import finish_abandoned, unwatch_unclosed, watch_unclosed

__all__ = [
    "OPEN",
    "RECORD_OVERHEAD",
    "Batch",
    "BatchedRecord",
    "ConsumersOfTransaction",
    "Delivery",
    "Failure",
    "Producer",
    "ProducerCore",
    "ProducerInterceptor",
    "ProducerRecord",
    "RecordMetadata",
    "SendInterception",
    "Serialization",
    "SerializationError",
    "Serializer",
    "Transaction",
    "TransactionalConsumer",
    "UndecidedConsumers",
    "check_partition",
    "check_timestamp",
    "delivery_of",
    "finish_abandoned",
    "group_of",
    "murmur2",
    "note_failed_abort",
    "producer_options",
    "record_size",
    "unwatch_unclosed",
    "watch_unclosed",
]
