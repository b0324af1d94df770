"""`AIOKafkaAdminClient` of aiokafka over `kohort.Admin`: topics, partitions, groups and their offsets.

As in aiokafka, changes of topics raise nothing: their responses have an error code for each topic.
"""

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kohort import client
from kohort.compat.aiokafka import options
from kohort.compat.aiokafka.errors import NAMES, IllegalArgumentError
from kohort.compat.aiokafka.structs import OffsetAndMetadata, TopicPartition


class NewTopic:
    """Topic to create. -1 selects the broker's default."""

    def __init__(
        self,
        name: str,
        num_partitions: int,
        replication_factor: int,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, str] | None = None,
    ) -> None:
        if replica_assignments:
            raise IllegalArgumentError(f"{name}: the brokers choose the replicas; leave out the assignments")
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.topic_configs = topic_configs or {}


class NewPartitions:
    """Total number of partitions that a topic is to have."""

    def __init__(self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None) -> None:
        if new_assignments:
            raise IllegalArgumentError("the brokers choose the replicas; leave out new_assignments")
        self.total_count = total_count


class TopicResult(NamedTuple):
    """Result for one topic; the error code is 0 for success."""

    topic: str
    error_code: int
    error_message: str | None


class TopicsResponse(NamedTuple):
    """Results of `create_topics` and `create_partitions`."""

    throttle_time_ms: int
    topic_errors: list[TopicResult]


class DeleteTopicsResponse(NamedTuple):
    """Results of `delete_topics`: topics and their error codes."""

    throttle_time_ms: int
    topic_error_codes: list[tuple[str, int]]


class AIOKafkaAdminClient:
    """Admin client with the interface of aiokafka."""

    def __init__(self, **configs: Any) -> None:
        with NAMES.naming():
            self._admin = client.Admin(**options.read(options.ADMIN, configs))

    async def start(self) -> None:
        """Connect."""
        with NAMES.naming():
            await self._admin.describe_cluster()

    async def close(self) -> None:
        """Disconnect."""
        await self._admin.close()

    # -- topics

    async def create_topics(
        self, new_topics: Iterable[NewTopic], timeout_ms: int | None = None, validate_only: bool = False
    ) -> TopicsResponse:
        """Create topics, and wait until their partitions have leaders."""
        results = []
        for topic in new_topics:
            wanted = client.NewTopic(
                topic.name,
                None if topic.num_partitions == -1 else topic.num_partitions,
                None if topic.replication_factor == -1 else topic.replication_factor,
                topic.topic_configs,
            )
            change = self._admin.create_topics([wanted], validate_only=validate_only, timeout_ms=timeout_ms)
            results.append(await _result(topic.name, change))
        return TopicsResponse(0, results)

    async def delete_topics(self, topics: Iterable[str], timeout_ms: int | None = None) -> DeleteTopicsResponse:
        """Delete topics."""
        results = [await _result(name, self._admin.delete_topics([name], timeout_ms=timeout_ms)) for name in topics]
        return DeleteTopicsResponse(0, [(result.topic, result.error_code) for result in results])

    async def create_partitions(
        self,
        topic_partitions: Mapping[str, NewPartitions],
        timeout_ms: int | None = None,
        validate_only: bool = False,
    ) -> TopicsResponse:
        """Set the number of partitions of topics. `timeout_ms` has no effect."""
        results = [
            await _result(name, self._admin.create_partitions(name, wanted.total_count, validate_only=validate_only))
            for name, wanted in topic_partitions.items()
        ]
        return TopicsResponse(0, results)

    async def list_topics(self) -> list[str]:
        """Return the names of all topics."""
        with NAMES.naming():
            return await self._admin.list_topics(internal=True)

    async def describe_topics(self, topics: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Return the metadata of these topics, or of all."""
        with NAMES.naming():
            if topics is None:
                return [_topic(topic) for topic in (await self._admin.describe_topics()).values()]
            return [await self._described(name) for name in topics]

    async def _described(self, name: str) -> dict[str, Any]:
        try:
            return _topic((await self._admin.describe_topics([name]))[name])
        except client.KafkaError as error:
            return _topic(client.TopicMetadata(name, error=error.code))

    async def describe_cluster(self) -> dict[str, Any]:
        """Return the brokers, the controller and the cluster ID."""
        with NAMES.naming():
            cluster = await self._admin.describe_cluster()
        brokers = [
            {"node_id": broker.node_id, "host": broker.host, "port": broker.port, "rack": broker.rack}
            for broker in cluster.brokers.values()
        ]
        return {
            "throttle_time_ms": 0,
            "brokers": brokers,
            "cluster_id": cluster.cluster_id,
            "controller_id": cluster.controller_id,
        }

    # -- groups

    async def list_consumer_groups(self) -> list[tuple[str, str]]:
        """Return the name and the protocol type of the groups of all brokers."""
        with NAMES.naming():
            return [(group.group_id, group.protocol_type) for group in await self._admin.list_groups()]

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        group_coordinator_id: None = None,
        partitions: Iterable[client.TopicPartition] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group; -1 for given partitions without one."""
        if group_coordinator_id is not None:
            raise IllegalArgumentError("the client finds the coordinator; leave out group_coordinator_id")
        with NAMES.naming():
            found = await self._admin.group_offsets(group_id, None if partitions is None else list(partitions))
        return {
            TopicPartition(*partition): OffsetAndMetadata(-1, "")
            if at is None
            else OffsetAndMetadata(at.offset, at.metadata)
            for partition, at in found.items()
        }


async def _result(topic: str, change: Coroutine[Any, Any, Any]) -> TopicResult:
    try:
        await change
    except client.KafkaError as error:
        return TopicResult(topic, int(error.code), error.sentence)
    return TopicResult(topic, 0, None)


def _topic(topic: client.TopicMetadata) -> dict[str, Any]:
    partitions = [
        {
            "error_code": int(leader.error),
            "partition": number,
            "leader": -1 if leader.node_id is None else leader.node_id,
            "replicas": list(topic.replicas.get(number, ())),
            "isr": list(topic.in_sync.get(number, ())),
        }
        for number, leader in sorted(topic.leaders.items())
    ]
    return {
        "error_code": int(topic.error),
        "topic": topic.name,
        "is_internal": topic.internal,
        "partitions": partitions,
    }
