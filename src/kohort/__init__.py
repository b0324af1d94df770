"""Kohort: Apache Kafka's consumer-group system in Python."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.client import (
        Admin,
        Cluster,
        CommitFailedError,
        ConcurrentUseError,
        ConfigError,
        Consumer,
        ConsumerRecord,
        DeliveryFailedError,
        ErrorCode,
        KafkaError,
        KohortError,
        Membership,
        NewTopic,
        OffsetAndMetadata,
        OffsetSpec,
        Partitions,
        Producer,
        RecordMetadata,
        SubscriptionPattern,
        TopicPartition,
    )

__all__ = [
    "Admin",
    "Cluster",
    "CommitFailedError",
    "ConcurrentUseError",
    "ConfigError",
    "Consumer",
    "ConsumerRecord",
    "DeliveryFailedError",
    "ErrorCode",
    "KafkaError",
    "KohortError",
    "Membership",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetSpec",
    "Partitions",
    "Producer",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicPartition",
]


if not TYPE_CHECKING:  # otherwise every misspelt name would be an object to the type checker

    def __getattr__(name: str) -> object:
        """Load the client on first use, so that `import kohort` costs nothing (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module 'kohort' has no attribute {name!r}")
        from kohort import client

        return getattr(client, name)


def __dir__() -> list[str]:
    return __all__
