"""kafka-python's interface over `kohort.blocking`: `from kohort.compat.kafka_python import KafkaConsumer`.

The modules `admin`, `errors`, `serializer` and `structs` have the names of kafka-python's modules.
"""

from kohort.compat.kafka_python import errors
from kohort.compat.kafka_python.admin import KafkaAdminClient, NewPartitions, NewTopic
from kohort.compat.kafka_python.consumer import KafkaConsumer
from kohort.compat.kafka_python.listener import ConsumerRebalanceListener
from kohort.compat.kafka_python.producer import KafkaProducer
from kohort.compat.kafka_python.serializer import DefaultSerializer, Deserializer, JsonSerializer, Serializer
from kohort.compat.kafka_python.structs import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    IsolationLevel,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
    TopicPartition,
)

__all__ = [
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "DefaultSerializer",
    "Deserializer",
    "IsolationLevel",
    "JsonSerializer",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RecordMetadata",
    "Serializer",
    "TopicPartition",
    "errors",
]
