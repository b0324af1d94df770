"""Offsets requested from partition leaders: the earliest, the latest, or the first at a timestamp."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kohort.client.arguments import partition_of, whole
from kohort.client.net.cluster import Cluster
from kohort.client.net.connection import BrokerConnection
from kohort.client.net.leaders import Answer, ask_leaders, leader_epoch
from kohort.client.offset_spec import OffsetSpec
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.model import Millis, TopicPartition
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """Offset of a partition. `timestamp` is None if an OffsetSpec was requested instead of a timestamp."""

    offset: int
    timestamp: Millis | None = None
    leader_epoch: int | None = None


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, OffsetSpec | Millis],
    *,
    read_committed: bool = False,
    timeout_ms: Millis | None = None,
    on_some: Callable[[Mapping[TopicPartition, FoundOffset | None]], None] | None = None,
) -> dict[TopicPartition, FoundOffset | None]:
    """Return an offset for each partition; None if all records are older than the requested timestamp.

    `on_some` receives partial results as they arrive. Raises KafkaError if retries did not help.
    """

    async def ask(
        connection: BrokerConnection, some: Mapping[TopicPartition, OffsetSpec | Millis]
    ) -> Answer[FoundOffset | None]:
        return await ask_offsets(cluster, connection, some, read_committed=read_committed)

    return await ask_leaders(cluster, _checked(wanted), ask, timeout_ms, on_some)


async def ask_offsets(
    cluster: Cluster,
    connection: BrokerConnection,
    wanted: Mapping[TopicPartition, OffsetSpec | Millis],
    *,
    read_committed: bool,
) -> Answer[FoundOffset | None]:
    """Send one request to one leader. Raises KafkaError for an error of the whole request."""
    request = _request(cluster, wanted, read_committed)
    return _read(await connection.request(request, ListOffsetsResponse))


def _checked(wanted: Mapping[TopicPartition, OffsetSpec | Millis]) -> dict[TopicPartition, OffsetSpec | Millis]:
    return {
        (one := partition_of(partition)): at if isinstance(at, OffsetSpec) else whole(f"the time for {one}", at)
        for partition, at in wanted.items()
    }


def _request(
    cluster: Cluster, wanted: Mapping[TopicPartition, OffsetSpec | Millis], read_committed: bool
) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for partition, spec in wanted.items():
        topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic, partitions=[]))
        epoch = leader_epoch(cluster, partition)
        topic.partitions.append(
            ListOffsetsPartition(partition_index=partition.partition, current_leader_epoch=epoch, timestamp=int(spec))
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1 if read_committed else 0,
        topics=list(topics.values()),
        timeout_ms=cluster.options.request_timeout_ms,
    )


def _read(response: ListOffsetsResponse) -> Answer[FoundOffset | None]:
    found: dict[TopicPartition, FoundOffset | None] = {}
    refused: dict[TopicPartition, KafkaError] = {}
    for answered in response.topics:
        for one in answered.partitions:
            partition = TopicPartition(answered.name, one.partition_index)
            if one.error_code != ErrorCode.NONE:
                code = error_code(one.error_code)
                refused[partition] = KafkaError(code, f"{partition}: {code.sentence}")
            elif one.offset < 0:
                found[partition] = None
            else:
                found[partition] = FoundOffset(
                    one.offset,
                    None if one.timestamp < 0 else one.timestamp,
                    None if one.leader_epoch < 0 else one.leader_epoch,
                )
    return found, refused
