"""Client for asyncio: consume in a group, produce, administer.

`kohort.blocking` is its version for plain threads.
"""

from kohort.client.admin.admin import Admin, NewTopic
from kohort.client.admin.configs import ConfigKind, ConfigSource, ConfigValue
from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription
from kohort.client.admin.groups import GroupListing, GroupOffset
from kohort.client.admin.logs import LogDirectory
from kohort.client.consume.consumer import Consumer
from kohort.client.consume.consumer_record import ConsumerRecord
from kohort.client.consume.partition_batch import PartitionBatch
from kohort.client.consume.partition_events import Partitions
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
from kohort.client.keywords import AdminKeywords, ClientKeywords, ConsumerKeywords, MembershipKeywords, ProducerKeywords
from kohort.client.membership.membership import Membership
from kohort.client.net.cluster import Cluster
from kohort.client.net.not_kafka import NotKafkaError
from kohort.client.offset_spec import OffsetSpec
from kohort.client.options import AdminOptions, ClientOptions, ConsumerOptions, GroupOptions, ProducerOptions
from kohort.client.produce.batches import Delivery, RecordMetadata
from kohort.client.produce.producer import Producer
from kohort.client.subscription_pattern import SubscriptionPattern
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError
from kohort.member import OffsetAndMetadata, Phase
from kohort.model import TopicPartition
from kohort.requests import ActiveProducer, Broker, ClusterMetadata, FoundOffset, Leader, TopicMetadata

__all__ = [
    "ActiveProducer",
    "Admin",
    "AdminKeywords",
    "AdminOptions",
    "Broker",
    "BufferFullError",
    "ClientKeywords",
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
    "ConsumerKeywords",
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
    "MembershipKeywords",
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
    "ProducerKeywords",
    "ProducerOptions",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicMetadata",
    "TopicPartition",
]
