"""`KafkaAdminClient` of kafka-python over `kohort.blocking.Admin`: topics, groups and their offsets.

Results are dictionaries as in kafka-python, without the fields that only kafka-python's requests
ask for.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from kohort import client
from kohort.client import blocking
from kohort.compat.kafka_python import options
from kohort.compat.kafka_python.errors import NAMES, for_code
from kohort.compat.kafka_python.structs import OffsetAndMetadata, TopicPartition


class NewTopic:
    """Topic to create. -1 selects the broker's default."""

    def __init__(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = replica_assignments or {}
        self.topic_configs = topic_configs or {}


class NewPartitions:
    """Total number of partitions that a topic is to have."""

    def __init__(self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None) -> None:
        self.total_count = total_count
        self.new_assignments = new_assignments


class KafkaAdminClient:
    """Admin client with the interface of kafka-python."""

    DEFAULT_CONFIG: Mapping[str, Any] = options.ADMIN.defaults

    def __init__(self, **configs: Any) -> None:
        self.config = {**self.DEFAULT_CONFIG, **configs}
        with NAMES.naming():
            self._admin = blocking.Admin(**options.ADMIN.read(configs))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._admin.close()

    # -- topics

    def create_topics(
        self,
        new_topics: Mapping[str, Mapping[str, Any]] | Sequence[NewTopic | str],
        timeout_ms: int | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
        wait_for_metadata: bool = False,
    ) -> dict[str, Any]:
        """Create topics, and wait until their partitions have leaders, whatever `wait_for_metadata` is."""
        topics = _new_topics(new_topics)
        if not topics:
            raise client.ConfigError(f"No valid topics found in new_topics: {new_topics}")

        def create(topic: client.NewTopic) -> dict[str, Any]:
            made = self._admin.create_topics([topic], validate_only=validate_only, timeout_ms=timeout_ms)
            return {"topic_id": str(made[topic.name]) if topic.name in made else None}

        return {"topics": [_result(topic.name, partial(create, topic), raise_errors) for topic in topics]}

    def delete_topics(
        self, topics: Iterable[str], timeout_ms: int | None = None, raise_errors: bool = True
    ) -> dict[str, Any]:
        """Delete topics."""

        def delete(name: str) -> dict[str, Any]:
            self._admin.delete_topics([name], timeout_ms=timeout_ms)
            return {}

        return {"topics": [_result(name, partial(delete, name), raise_errors) for name in topics]}

    def create_partitions(
        self,
        topic_partitions: Mapping[str, int | Mapping[str, Any] | NewPartitions],
        timeout_ms: int | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> dict[str, Any]:
        """Set the number of partitions of topics. `timeout_ms` has no effect."""

        def create(topic: str, total: int) -> dict[str, Any]:
            self._admin.create_partitions(topic, total, validate_only=validate_only)
            return {}

        totals = {topic: _total(topic, wanted) for topic, wanted in topic_partitions.items()}
        return {
            "results": [_result(topic, partial(create, topic, total), raise_errors) for topic, total in totals.items()]
        }

    def list_topics(self) -> list[str]:
        """Return the names of all topics."""
        with NAMES.naming():
            return self._admin.list_topics(internal=True)

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Return the metadata of these topics, or of all; `error_code` is 3 for a topic that does not exist."""
        with NAMES.naming():
            if topics is None:
                return [_topic(topic) for topic in self._admin.describe_topics().values()]
            return [self._described(name) for name in topics]

    def _described(self, name: str) -> dict[str, Any]:
        try:
            return _topic(self._admin.describe_topics([name])[name])
        except client.KafkaError as error:
            return _topic(client.TopicMetadata(name, error=error.code))

    def describe_cluster(self) -> dict[str, Any]:
        """Return the brokers, the controller and the cluster ID."""
        with NAMES.naming():
            cluster = self._admin.describe_cluster()
        brokers = [
            {"broker_id": broker.node_id, "host": broker.host, "port": broker.port, "rack": broker.rack}
            for broker in cluster.brokers.values()
        ]
        return {"cluster_id": cluster.cluster_id, "controller_id": cluster.controller_id, "brokers": brokers}

    # -- groups

    def list_groups(
        self,
        broker_ids: None = None,
        states_filter: Collection[str] | None = None,
        types_filter: Collection[str] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the groups of all brokers."""
        if broker_ids is not None:
            raise client.ConfigError("broker_ids is not supported: the groups of all brokers are returned.")
        with NAMES.naming():
            return [
                {
                    "group_id": group.group_id,
                    "protocol_type": group.protocol_type,
                    "group_state": group.state,
                    "group_type": group.type,
                }
                for group in self._admin.list_groups(states_filter or (), types_filter or ())
            ]

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the state and the members of each group."""
        with NAMES.naming():
            return {name: _group(group) for name, group in self._admin.describe_groups(group_ids).items()}

    def list_group_offsets(
        self, group_specs: str | Iterable[str] | Mapping[str, Collection[client.TopicPartition] | None]
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the committed offsets of each group, of all partitions or of those given."""
        if isinstance(group_specs, str):
            group_specs = [group_specs]
        wanted = group_specs if isinstance(group_specs, Mapping) else dict.fromkeys(group_specs)
        found = {}
        with NAMES.naming():
            for group_id, partitions in wanted.items():
                offsets = self._admin.group_offsets(group_id, partitions)
                found[group_id] = {
                    TopicPartition(*partition): OffsetAndMetadata(
                        at.offset, at.metadata, -1 if at.leader_epoch is None else at.leader_epoch
                    )
                    for partition, at in offsets.items()
                    if at is not None
                }
        return found

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, str]:
        """Delete groups. Return `OK` or the name of the error for each."""
        results = {}
        for group_id in group_ids:
            try:
                self._admin.delete_groups([group_id])
            except client.KafkaError as error:
                results[group_id] = for_code(error.code).__name__
            else:
                results[group_id] = "OK"
        return results


def _new_topics(given: Mapping[str, Mapping[str, Any]] | Sequence[NewTopic | str]) -> list[client.NewTopic]:
    if isinstance(given, Mapping):
        return [
            _new_topic(
                NewTopic(
                    name,
                    values.get("num_partitions", -1),
                    values.get("replication_factor", -1),
                    values.get("assignments"),
                    values.get("configs"),
                )
            )
            for name, values in given.items()
        ]
    return [_new_topic(NewTopic(topic) if isinstance(topic, str) else topic) for topic in given]


def _new_topic(topic: NewTopic) -> client.NewTopic:
    if topic.replica_assignments:
        raise client.ConfigError(f"{topic.name}: the brokers choose the replicas; leave out the assignments.")
    return client.NewTopic(
        topic.name,
        None if topic.num_partitions == -1 else topic.num_partitions,
        None if topic.replication_factor == -1 else topic.replication_factor,
        topic.topic_configs,
    )


def _total(topic: str, wanted: int | Mapping[str, Any] | NewPartitions) -> int:
    if isinstance(wanted, int):
        return wanted
    total, replicas = (
        (wanted["count"], wanted.get("assignments"))
        if isinstance(wanted, Mapping)
        else (wanted.total_count, wanted.new_assignments)
    )
    if replicas:
        raise client.ConfigError(f"{topic}: the brokers choose the replicas; leave out the assignments.")
    return int(total)


def _result(name: str, change: Callable[[], dict[str, Any]], raise_errors: bool) -> dict[str, Any]:
    if raise_errors:
        with NAMES.naming():
            return {"name": name, **change(), "error_code": 0, "error_message": None}
    try:
        return {"name": name, **change(), "error_code": 0, "error_message": None}
    except client.KafkaError as error:
        return {"name": name, "error_code": int(error.code), "error_message": error.sentence}


def _topic(topic: client.TopicMetadata) -> dict[str, Any]:
    partitions = [
        {
            "error_code": int(leader.error),
            "partition_index": number,
            "leader_id": -1 if leader.node_id is None else leader.node_id,
            "leader_epoch": -1 if leader.epoch is None else leader.epoch,
            "replica_nodes": list(topic.replicas.get(number, ())),
            "isr_nodes": list(topic.in_sync.get(number, ())),
        }
        for number, leader in sorted(topic.leaders.items())
    ]
    return {
        "error_code": int(topic.error),
        "name": topic.name,
        "topic_id": str(topic.topic_id) if topic.exists else None,
        "is_internal": topic.internal,
        "partitions": partitions,
    }


def _group(group: client.GroupDescription) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.assignor,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": {"topics": sorted(member.topics)},
                "member_assignment": {"assigned_partitions": _by_topic(member.assignment)},
            }
            for member in group.members
        ],
    }


def _by_topic(partitions: Iterable[client.TopicPartition]) -> list[dict[str, Any]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in found.items()]
