"""Client for asyncio: consume in a group, produce, administer.

`kohort.blocking` is its version for plain threads.
"""

from kohort.client.admin import (
    Admin,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ConfigKind,
    ConfigSource,
    ConfigValue,
    GroupDescription,
    GroupListing,
    GroupOffset,
    LogDirectory,
    MemberDescription,
    NewTopic,
    QuotaName,
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kohort.client.consume import (
    Consumer,
    ConsumerInterceptor,
    ConsumerRecord,
    Deserializer,
    PartitionBatch,
    Partitions,
    PartitionValues,
    RecordDeserializationError,
    TimestampType,
)
from kohort.client.failures import (
    AclsFailedError,
    BufferFullError,
    ClosedError,
    CommitFailedError,
    ConcurrentUseError,
    DeliveryFailedError,
    InvalidRecordError,
    LogTruncatedError,
    NoOffsetError,
    NotAssignedError,
    OffsetOutOfRangeError,
)
from kohort.client.keywords import AdminKeywords, ClientKeywords, ConsumerKeywords, MembershipKeywords, ProducerKeywords
from kohort.client.membership import Membership
from kohort.client.metrics import MetricName
from kohort.client.net import Cluster, NotKafkaError
from kohort.client.offset_spec import OffsetSpec
from kohort.client.options import AdminOptions, ClientOptions, ConsumerOptions, GroupOptions, ProducerOptions
from kohort.client.produce import (
    Delivery,
    Producer,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
    SerializationError,
    Serializer,
)
from kohort.client.security import AuthenticationError
from kohort.client.subscription_pattern import SubscriptionPattern
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError
from kohort.member import OffsetAndMetadata, Phase
from kohort.model import TopicPartition
from kohort.requests import ActiveProducer, Broker, ClusterMetadata, FoundOffset, Leader, TopicMetadata
from kohort.security import Acl, AclFilter, Operation, PatternType, Permission, ResourcePattern, ResourceType
from kohort.security.sasl import ScramMechanism

__all__ = [
    "Acl",
    "AclFilter",
    "AclsFailedError",
    "ActiveProducer",
    "Admin",
    "AdminKeywords",
    "AdminOptions",
    "AuthenticationError",
    "Broker",
    "BufferFullError",
    "ClientKeywords",
    "ClientOptions",
    "ClientQuotaEntity",
    "ClientQuotaFilter",
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
    "ConsumerInterceptor",
    "ConsumerKeywords",
    "ConsumerOptions",
    "ConsumerRecord",
    "Delivery",
    "DeliveryFailedError",
    "Deserializer",
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
    "MetricName",
    "NewTopic",
    "NoOffsetError",
    "NotAssignedError",
    "NotKafkaError",
    "OffsetAndMetadata",
    "OffsetOutOfRangeError",
    "OffsetSpec",
    "Operation",
    "PartitionBatch",
    "PartitionValues",
    "Partitions",
    "PatternType",
    "Permission",
    "Phase",
    "Producer",
    "ProducerInterceptor",
    "ProducerKeywords",
    "ProducerOptions",
    "ProducerRecord",
    "QuotaName",
    "RecordDeserializationError",
    "RecordMetadata",
    "ResourcePattern",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramMechanism",
    "SerializationError",
    "Serializer",
    "SubscriptionPattern",
    "TimestampType",
    "TopicMetadata",
    "TopicPartition",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]
