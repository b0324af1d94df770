"""Metadata: the request, and the responses as an immutable value."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kohort.errors import ErrorCode, error_code
from kohort.model import NO_TOPIC_ID, UUID, TopicPartition
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)


def metadata_request(topics: Iterable[str] | None, *, create: bool = False) -> MetadataRequest:
    """Return a request for these topics, or for all (None).

    With `create`, the broker creates those that do not exist, if auto-creation is enabled.
    """
    # KIP-516: an empty list requests no topics, null requests all.
    chosen = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=chosen, allow_auto_topic_creation=create)


@dataclass(frozen=True, slots=True)
class Broker:
    """Address of a broker."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Leader:
    """Leader of a partition and its epoch; None while there is no leader."""

    node_id: int | None
    epoch: int | None
    error: ErrorCode = ErrorCode.NONE
    """Error that the broker returned for the partition, such as the reason for having no leader."""


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """Metadata of one topic. `error` is the reason if there is none."""

    name: str
    topic_id: UUID = NO_TOPIC_ID
    internal: bool = False
    leaders: Mapping[int, Leader] = field(default_factory=dict)
    replicas: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    in_sync: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    error: ErrorCode = ErrorCode.NONE

    @property
    def exists(self) -> bool:
        """Whether the broker that answered has the topic."""
        return bool(self.leaders)


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """One Metadata response, merged with earlier responses about other topics."""

    cluster_id: str | None = None
    controller_id: int | None = None
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    names: Mapping[UUID, str] = field(default_factory=dict)
    racks: Mapping[int, str] = field(default_factory=dict)
    """Racks of current and former brokers. While a broker restarts, its replicas remain assigned to it."""
    refused_ids: Mapping[UUID, ErrorCode] = field(default_factory=dict)
    """Topic IDs for which the last response has no name."""

    def leader(self, partition: TopicPartition) -> Leader | None:
        """Return the leader of a partition; None if the partition is unknown."""
        topic = self.topics.get(partition.topic)
        return topic.leaders.get(partition.partition) if topic else None

    def partitions(self, topic: str) -> int:
        """Return the topic's partition count; 0 if it is not known to exist."""
        known = self.topics.get(topic)
        return len(known.leaders) if known else 0

    def topic_id(self, topic: str) -> UUID | None:
        """Return the topic's ID; None if it is unknown or the brokers do not support topic IDs (KIP-516)."""
        known = self.topics.get(topic)
        return known.topic_id if known and known.topic_id != NO_TOPIC_ID else None

    def racks_of(self, topics: Iterable[str]) -> dict[TopicPartition, frozenset[str]]:
        """Return the racks of each partition's replicas; empty if the brokers have none."""
        if not self.racks:
            return {}
        return {
            TopicPartition(name, number): frozenset(self.racks[node] for node in replicas if node in self.racks)
            for name in topics
            if name in self.topics
            for number, replicas in self.topics[name].replicas.items()
        }

    def merged(
        self, response: MetadataResponse, *, asked: Collection[str] = (), of_all: bool = False
    ) -> "ClusterMetadata":
        """Return this metadata updated by a response. Topics in `asked` that it omits do not exist.

        `of_all` means that the response covers all topics: no others exist.
        """
        topics = {} if of_all else dict(self.topics)
        topics |= {name: _missing(name) for name in asked}
        for topic in response.topics:
            if topic.name is not None:
                topics[topic.name] = _topic(topic)
        return ClusterMetadata(
            cluster_id=response.cluster_id or self.cluster_id,
            controller_id=response.controller_id if response.controller_id >= 0 else None,
            brokers={
                broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack)
                for broker in response.brokers
            },
            topics=topics,
            names={topic.topic_id: name for name, topic in topics.items() if topic.topic_id != NO_TOPIC_ID},
            racks={**self.racks, **{broker.node_id: broker.rack for broker in response.brokers if broker.rack}},
            refused_ids={topic.topic_id: error_code(topic.error_code) for topic in response.topics if not topic.name},
        )


def _missing(name: str) -> TopicMetadata:
    return TopicMetadata(name, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _topic(topic: MetadataResponseTopic) -> TopicMetadata:
    assert topic.name is not None
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    leaders = {
        partition.partition_index: Leader(
            partition.leader_id if partition.leader_id >= 0 else None,
            partition.leader_epoch if partition.leader_epoch >= 0 else None,
            error_code(partition.error_code),
        )
        for partition in partitions
    }
    replicas = {partition.partition_index: tuple(partition.replica_nodes) for partition in partitions}
    in_sync = {partition.partition_index: tuple(partition.isr_nodes) for partition in partitions}
    error = error_code(topic.error_code)
    return TopicMetadata(topic.name, topic.topic_id, topic.is_internal, leaders, replicas, in_sync, error)
