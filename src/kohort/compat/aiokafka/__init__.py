"""aiokafka's interface over `kohort`: `from kohort.compat.aiokafka import AIOKafkaConsumer`.

The modules `admin`, `errors` and `structs` have the names of aiokafka's modules.
"""

from kohort.compat.aiokafka import errors
from kohort.compat.aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from kohort.compat.aiokafka.consumer import AIOKafkaConsumer
from kohort.compat.aiokafka.errors import ConsumerStoppedError, IllegalOperation
from kohort.compat.aiokafka.listener import ConsumerRebalanceListener
from kohort.compat.aiokafka.producer import AIOKafkaProducer
from kohort.compat.aiokafka.structs import (
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
    TopicPartition,
)

__all__ = [
    "AIOKafkaAdminClient",
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerStoppedError",
    "IllegalOperation",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RecordMetadata",
    "TopicPartition",
    "errors",
]
