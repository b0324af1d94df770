"""What `list_topics` and `list_groups` return."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Self

from kohort.client import KafkaError as ProtocolError
from kohort.client import TopicMetadata as KnownTopic
from kohort.compat.confluent.clients import LimitedAdmin
from kohort.compat.confluent.configuration import Configuration
from kohort.compat.confluent.errors import KafkaError, error_of, not_supported, raising


@dataclass
class BrokerMetadata:
    """Broker of the cluster."""

    id: int = -1
    host: str | None = None
    port: int = -1

    def __repr__(self) -> str:
        return f"BrokerMetadata({self.id}, {self.host}:{self.port})"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.id}"


@dataclass
class PartitionMetadata:
    """Partition of a topic, with the numbers of its brokers."""

    id: int = -1
    leader: int = -1
    replicas: list[int] = field(default_factory=list)
    isrs: list[int] = field(default_factory=list)
    error: KafkaError | None = None

    def __repr__(self) -> str:
        return f"PartitionMetadata({self.id})" if self.error is None else f"PartitionMetadata({self.id}, {self.error})"

    def __str__(self) -> str:
        return str(self.id)


@dataclass
class TopicMetadata:
    """Topic with its partitions by number, or with the error that prevents it."""

    topic: str | None = None
    partitions: dict[int, PartitionMetadata] = field(default_factory=dict)
    error: KafkaError | None = None

    def __repr__(self) -> str:
        what = f"{self.topic}, {len(self.partitions)} partitions"
        return f"TopicMetadata({what})" if self.error is None else f"TopicMetadata({what}, {self.error})"

    def __str__(self) -> str:
        return str(self.topic)


@dataclass
class ClusterMetadata:
    """Brokers by number, and topics by name."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: dict[int, BrokerMetadata] = field(default_factory=dict)
    topics: dict[str, TopicMetadata] = field(default_factory=dict)
    orig_broker_id: int = -1
    orig_broker_name: str | None = None

    def __repr__(self) -> str:
        return f"ClusterMetadata({self.cluster_id})"

    def __str__(self) -> str:
        return str(self.cluster_id)


def cluster_metadata(admin: LimitedAdmin, topic: str | None) -> ClusterMetadata:
    """Ask for the brokers, and for one topic or all. A topic that does not exist has an error."""
    cluster = admin.describe_cluster()
    found = ClusterMetadata(cluster.cluster_id, -1 if cluster.controller_id is None else cluster.controller_id)
    found.brokers = {
        each.node_id: BrokerMetadata(each.node_id, each.host, each.port) for each in cluster.brokers.values()
    }
    try:
        known = admin.describe_topics(None if topic is None else [topic])
    except ProtocolError as problem:
        if topic is None or (problem.retriable is False and not found.brokers):
            raise
        error = KafkaError(problem.code, retriable=problem.retriable)
        found.topics = {topic: TopicMetadata(topic, error=error)}
    else:
        found.topics = {name: _topic(each) for name, each in known.items()}
    for first in found.brokers.values():
        found.orig_broker_id, found.orig_broker_name = first.id, str(first)
        break
    return found


def _topic(known: KnownTopic) -> TopicMetadata:
    return TopicMetadata(
        known.name,
        {
            number: PartitionMetadata(
                number,
                -1 if leader.node_id is None else leader.node_id,
                list(known.replicas.get(number, ())),
                list(known.in_sync.get(number, ())),
                error_of(ProtocolError(leader.error)) if leader.error else None,
            )
            for number, leader in sorted(known.leaders.items())
        },
        error_of(ProtocolError(known.error)) if known.error else None,
    )


class ClusterClient(ABC):
    """Base of consumer and producer: what both can ask about the cluster."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._admin: LimitedAdmin | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> object:
        """Close the client. Closing twice is allowed."""

    @abstractmethod
    def _check_open(self) -> None: ...

    def list_topics(self, topic: str | None = None, timeout: float | None = -1) -> ClusterMetadata:
        """Return brokers and topics, or brokers and one topic."""
        self._check_open()
        with raising():
            return cluster_metadata(self._asking(timeout), topic)

    def cluster_id(self, timeout: float | None = -1) -> str | None:
        """Return the id of the cluster."""
        self._check_open()
        with raising():
            return self._asking(timeout).describe_cluster().cluster_id

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Raise KafkaException: a client keeps the credentials of its configuration."""
        raise not_supported("set_sasl_credentials")

    def _asking(self, limit_s: float | None) -> LimitedAdmin:
        if self._admin is None:
            self._admin = LimitedAdmin(**self._configuration.for_admin())
        return self._admin.within(limit_s)

    def _close_admin(self) -> None:
        if self._admin is not None:
            self._admin.close()
