"""Consumer: fetches, positions, commits and callbacks."""

from kohort.client.consume.acceleration import columns_loading
from kohort.client.consume.commits import Commits
from kohort.client.consume.consumer import Consumer
from kohort.client.consume.consumer_record import ConsumerRecord, TimestampType
from kohort.client.consume.deserialization import Deserializer, RecordDeserializationError
from kohort.client.consume.interceptors import ConsumerInterceptor
from kohort.client.consume.partition_batch import PartitionBatch, PartitionValues
from kohort.client.consume.partition_events import Partitions
from kohort.client.consume.unread import UnreadRecords

__all__ = [
    "Commits",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "Deserializer",
    "PartitionBatch",
    "PartitionValues",
    "Partitions",
    "RecordDeserializationError",
    "TimestampType",
    "UnreadRecords",
    "columns_loading",
]
