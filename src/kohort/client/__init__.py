"""The client for asyncio: consume in a group, produce, administer. `kohort.blocking` is the same for plain threads."""

from kohort.client.admin import Admin, NewTopic
from kohort.client.batches import Delivery, RecordMetadata
from kohort.client.cluster import Cluster
from kohort.client.configs import ConfigKind, ConfigSource, ConfigValue
from kohort.client.consumer import Consumer
from kohort.client.consumer_record import ConsumerRecord
from kohort.client.failures import (
    BufferFullError,
    ClosedError,
    CommitFailedError,
    ConcurrentUseError,
    DeliveryFailedError,
    InvalidRecordError,
    LogTruncatedError,
    NoOffsetError,
    NotAssignedError,
)
from kohort.client.group_descriptions import GroupDescription, MemberDescription
from kohort.client.groups import GroupListing, GroupOffset
from kohort.client.logs import LogDirectory
from kohort.client.membership import Membership
from kohort.client.metadata import Broker, ClusterMetadata, Leader, TopicMetadata
from kohort.client.offset_spec import OffsetSpec
from kohort.client.offsets import FoundOffset
from kohort.client.options import AdminOptions, ClientOptions, ConsumerOptions, GroupOptions, ProducerOptions
from kohort.client.partition_batch import PartitionBatch
from kohort.client.partitions import Partitions
from kohort.client.producer import Producer
from kohort.client.producers import ActiveProducer
from kohort.client.strangers import NotKafkaError
from kohort.client.subscription_pattern import SubscriptionPattern
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError
from kohort.member import OffsetAndMetadata, Phase
from kohort.model import TopicPartition

__all__ = [
    "ActiveProducer",
    "Admin",
    "AdminOptions",
    "Broker",
    "BufferFullError",
    "ClientOptions",
    "ClosedError",
    "Cluster",
    "ClusterMetadata",
    "CommitFailedError",
    "ConcurrentUseError",
    "ConfigError",
    "ConfigKind",
    "ConfigSource",
    "ConfigValue",
    "Consumer",
    "ConsumerOptions",
    "ConsumerRecord",
    "Delivery",
    "DeliveryFailedError",
    "ErrorCode",
    "FoundOffset",
    "GroupDescription",
    "GroupListing",
    "GroupOffset",
    "GroupOptions",
    "InvalidRecordError",
    "KafkaError",
    "KohortError",
    "Leader",
    "LogDirectory",
    "LogTruncatedError",
    "MemberDescription",
    "Membership",
    "NewTopic",
    "NoOffsetError",
    "NotAssignedError",
    "NotKafkaError",
    "OffsetAndMetadata",
    "OffsetSpec",
    "PartitionBatch",
    "Partitions",
    "Phase",
    "Producer",
    "ProducerOptions",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicMetadata",
    "TopicPartition",
]
