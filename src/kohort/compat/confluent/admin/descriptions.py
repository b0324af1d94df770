"""Groups, offsets and brokers as `AdminClient` takes and returns them."""

from dataclasses import dataclass, field
from enum import Enum

from kohort.client import Broker
from kohort.compat.confluent.errors import KafkaError, KafkaException
from kohort.compat.confluent.values import TopicPartition


@dataclass
class Node:
    """Broker of the cluster."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def id_string(self) -> str:
        """Number as text."""
        return str(self.id)

    def __str__(self) -> str:
        rack = f"(Rack - {self.rack})" if self.rack else ""
        return f"({self.id}) {self.host}:{self.port} {rack}"


def node_of(broker: Broker) -> Node:
    """Return a broker under the names of confluent-kafka."""
    return Node(broker.node_id, broker.host, broker.port, broker.rack)


@dataclass
class DescribeClusterResult:
    """Brokers of the cluster, and the controller if there is one."""

    controller: Node | None
    nodes: list[Node]
    cluster_id: str | None = None
    authorized_operations: None = None


class IsolationLevel(Enum):
    """Whether offsets of open transactions count."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, order=True)
class OffsetSpec:
    """Offset to look for: the first, the last, that of the largest timestamp, or at a time."""

    value: int

    @classmethod
    def earliest(cls) -> "OffsetSpec":
        """Return the first offset."""
        return cls(-2)

    @classmethod
    def latest(cls) -> "OffsetSpec":
        """Return the offset after the last message."""
        return cls(-1)

    @classmethod
    def max_timestamp(cls) -> "OffsetSpec":
        """Return the offset of the message with the largest timestamp."""
        return cls(-3)

    @classmethod
    def for_timestamp(cls, timestamp: int) -> "OffsetSpec":
        """Return the first offset at or after a time in milliseconds since 1970."""
        return cls(timestamp)


@dataclass
class ListOffsetsResultInfo:
    """Offset that was found, with the time of its message or -1."""

    offset: int
    timestamp: int
    leader_epoch: int | None


@dataclass
class DeletedRecords:
    """First offset that is left."""

    low_watermark: int


@dataclass
class ConsumerGroupTopicPartitions:
    """Group with partitions and offsets; None for all that have offsets."""

    group_id: str
    topic_partitions: list[TopicPartition] | None = None


@dataclass
class MemberAssignment:
    """Partitions of a member."""

    topic_partitions: list[TopicPartition] = field(default_factory=list)


@dataclass
class MemberDescription:
    """Member of a group."""

    member_id: str
    client_id: str
    host: str
    assignment: MemberAssignment
    group_instance_id: str | None = None
    target_assignment: MemberAssignment | None = None


@dataclass
class GroupMember:
    """Member of a group. Metadata and assignment are not decoded here, so they are empty."""

    id: str
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@dataclass
class GroupMetadata:
    """Group as `list_groups` returns it."""

    id: str
    state: str
    protocol_type: str
    protocol: str
    members: list[GroupMember]
    error: KafkaError | None = None

    def __repr__(self) -> str:
        return f"GroupMetadata({self.id})"

    def __str__(self) -> str:
        return self.id


class ConsumerGroupState(Enum):
    """State of a group."""

    UNKNOWN = 0
    PREPARING_REBALANCING = 1
    COMPLETING_REBALANCING = 2
    STABLE = 3
    DEAD = 4
    EMPTY = 5
    ASSIGNING = 6
    RECONCILING = 7


class ConsumerGroupType(Enum):
    """Protocol of a group."""

    UNKNOWN = 0
    CONSUMER = 1
    CLASSIC = 2


@dataclass
class ConsumerGroupListing:
    """Group as `list_consumer_groups` returns it."""

    group_id: str
    is_simple_consumer_group: bool
    state: ConsumerGroupState | None = None
    type: ConsumerGroupType | None = None


@dataclass
class ListConsumerGroupsResult:
    """Groups, and the errors of brokers that did not answer."""

    valid: list[ConsumerGroupListing] = field(default_factory=list)
    errors: list[KafkaException] = field(default_factory=list)


@dataclass
class ConsumerGroupDescription:
    """Group with its members."""

    group_id: str
    is_simple_consumer_group: bool
    members: list[MemberDescription]
    partition_assignor: str
    state: ConsumerGroupState
    coordinator: Node | None
    authorized_operations: None = None
    type: ConsumerGroupType = ConsumerGroupType.UNKNOWN
