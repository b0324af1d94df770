"""AdminClient with the methods of confluent-kafka's that programs use most, over `kohort.blocking.Admin`."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future

from kohort.client import ConfigKind, ConfigValue, FoundOffset
from kohort.client import NewTopic as TopicToCreate
from kohort.client import OffsetSpec as Spec
from kohort.compat.confluent.admin.descriptions import (
    DeletedRecords,
    DescribeClusterResult,
    IsolationLevel,
    ListOffsetsResultInfo,
    OffsetSpec,
    node_of,
)
from kohort.compat.confluent.admin.groups import GroupRequests
from kohort.compat.confluent.admin.requests import not_twice
from kohort.compat.confluent.admin.values import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kohort.compat.confluent.clients import LimitedAdmin
from kohort.compat.confluent.cluster_metadata import ClusterMetadata, cluster_metadata
from kohort.compat.confluent.errors import invalid, not_supported
from kohort.compat.confluent.values import TopicPartition, partition_of

_KINDS = {
    ResourceType.TOPIC: ConfigKind.TOPIC,
    ResourceType.BROKER: ConfigKind.BROKER,
    ResourceType.GROUP: ConfigKind.GROUP,
}


class AdminClient(GroupRequests):
    """Client for administering a cluster. Methods that change something return futures by name."""

    # -- topics

    def create_topics(
        self,
        new_topics: list[NewTopic],
        *,
        operation_timeout: float = 0,
        request_timeout: float = -1,
        validate_only: bool = False,
    ) -> dict[str, "Future[None]"]:
        """Create topics."""
        not_twice(topic.topic for topic in new_topics)

        def create(topic: NewTopic) -> Callable[[LimitedAdmin], None]:
            if topic.replica_assignment is not None:
                raise not_supported("replica_assignment")
            wanted = TopicToCreate(
                topic.topic, _or_none(topic.num_partitions), _or_none(topic.replication_factor), topic.config or {}
            )

            def run(admin: LimitedAdmin) -> None:
                admin.create_topics([wanted], validate_only=validate_only)

            return run

        return {topic.topic: self.soon(request_timeout, create(topic)) for topic in new_topics}

    def delete_topics(
        self, topics: list[str], *, operation_timeout: float = 0, request_timeout: float = -1
    ) -> dict[str, "Future[None]"]:
        """Delete topics with all their records."""
        not_twice(topics)
        return {
            topic: self.soon(request_timeout, lambda admin, topic=topic: admin.delete_topics([topic]))  # type: ignore[misc]
            for topic in topics
        }

    def create_partitions(
        self,
        new_partitions: list[NewPartitions],
        *,
        operation_timeout: float = 0,
        request_timeout: float = -1,
        validate_only: bool = False,
    ) -> dict[str, "Future[None]"]:
        """Add partitions to topics."""
        not_twice(each.topic for each in new_partitions)

        def create(wanted: NewPartitions) -> Callable[[LimitedAdmin], None]:
            if wanted.replica_assignment is not None:
                raise not_supported("replica_assignment")
            return lambda admin: admin.create_partitions(
                wanted.topic, wanted.new_total_count, validate_only=validate_only
            )

        return {each.topic: self.soon(request_timeout, create(each)) for each in new_partitions}

    def list_topics(self, topic: str | None = None, timeout: float | None = -1) -> ClusterMetadata:
        """Return brokers and topics, or brokers and one topic."""
        return self.now(timeout, lambda admin: cluster_metadata(admin, topic))

    def cluster_id(self, timeout: float | None = -1) -> str | None:
        """Return the id of the cluster."""
        return self.now(timeout, lambda admin: admin.describe_cluster().cluster_id)

    def describe_cluster(
        self, *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> "Future[DescribeClusterResult]":
        """Return the brokers and the controller."""
        if include_authorized_operations:
            raise not_supported("include_authorized_operations")

        def describe(admin: LimitedAdmin) -> DescribeClusterResult:
            cluster = admin.describe_cluster()
            nodes = {number: node_of(broker) for number, broker in cluster.brokers.items()}
            controller = None if cluster.controller_id is None else nodes.get(cluster.controller_id)
            return DescribeClusterResult(controller, list(nodes.values()), cluster.cluster_id)

        return self.soon(request_timeout, describe)

    # -- records

    def list_offsets(
        self,
        topic_partition_offsets: Mapping[TopicPartition, OffsetSpec],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        request_timeout: float = -1,
    ) -> dict[TopicPartition, "Future[ListOffsetsResultInfo]"]:
        """Return the first or last offset of partitions, or that of the first message at or after a time."""
        committed = isolation_level is IsolationLevel.READ_COMMITTED

        def find(wanted: TopicPartition, spec: OffsetSpec) -> Callable[[LimitedAdmin], ListOffsetsResultInfo]:
            partition = partition_of(wanted)
            at = spec.value if spec.value >= 0 else Spec(spec.value)
            return lambda admin: _found(admin.list_offsets({partition: at}, read_committed=committed)[partition])

        return {
            TopicPartition(*partition_of(wanted)): self.soon(request_timeout, find(wanted, spec))
            for wanted, spec in topic_partition_offsets.items()
        }

    def delete_records(
        self,
        topic_partition_offsets: list[TopicPartition],
        *,
        operation_timeout: float = 0,
        request_timeout: float = -1,
    ) -> dict[TopicPartition, "Future[DeletedRecords]"]:
        """Delete the messages before the partitions' offsets."""

        def delete(wanted: TopicPartition) -> Callable[[LimitedAdmin], DeletedRecords]:
            partition = partition_of(wanted)
            return lambda admin: DeletedRecords(admin.delete_records({partition: wanted.offset})[partition])

        return {wanted: self.soon(request_timeout, delete(wanted)) for wanted in topic_partition_offsets}

    # -- configs

    def describe_configs(
        self, resources: list[ConfigResource], *, request_timeout: float = -1
    ) -> dict[ConfigResource, "Future[dict[str, ConfigEntry]]"]:
        """Return the configs of resources by name."""

        def describe(resource: ConfigResource) -> Callable[[LimitedAdmin], dict[str, ConfigEntry]]:
            kind = _kind(resource)
            return lambda admin: {
                name: _entry(name, value) for name, value in admin.describe_configs(kind, resource.name).items()
            }

        return {resource: self.soon(request_timeout, describe(resource)) for resource in resources}

    def incremental_alter_configs(
        self, resources: list[ConfigResource], *, request_timeout: float = -1, validate_only: bool = False
    ) -> dict[ConfigResource, "Future[None]"]:
        """Set and delete configs; others remain unchanged."""
        if validate_only:
            raise not_supported("validate_only for configs")

        def alter(resource: ConfigResource) -> Callable[[LimitedAdmin], None]:
            kind, changes = _kind(resource), dict(_change(entry) for entry in resource.incremental_configs)
            return lambda admin: admin.alter_configs(kind, resource.name, changes)

        return {resource: self.soon(request_timeout, alter(resource)) for resource in resources}


def _or_none(number: int) -> int | None:
    return None if number == -1 else number


def _kind(resource: ConfigResource) -> ConfigKind:
    if resource.restype not in _KINDS:
        raise invalid(f"{resource.restype.name} has no configs")
    return _KINDS[resource.restype]


def _entry(name: str, value: ConfigValue) -> ConfigEntry:
    return ConfigEntry(name, value.value, int(value.source), value.read_only, value.is_default)


def _change(entry: ConfigEntry) -> tuple[str, str | None]:
    if entry.incremental_operation is AlterConfigOpType.DELETE:
        return entry.name, None
    if entry.incremental_operation is not AlterConfigOpType.SET:
        raise not_supported(f"incremental operation {entry.incremental_operation}: use SET or DELETE")
    return entry.name, entry.value


def _found(at: FoundOffset | None) -> ListOffsetsResultInfo:
    if at is None:
        return ListOffsetsResultInfo(-1, -1, None)
    return ListOffsetsResultInfo(at.offset, -1 if at.timestamp is None else at.timestamp, at.leader_epoch)
