"""Offsets requested from partition leaders: the earliest, the latest, or the first at a timestamp."""

from collections.abc import Callable, Mapping
from functools import partial

from kohort.client.arguments import partition_of, whole_number
from kohort.client.net.cluster import Cluster
from kohort.client.net.connection import BrokerConnection
from kohort.client.net.leaders import ask_leaders, leader_epoch
from kohort.client.offset_spec import OffsetSpec
from kohort.model import Millis, TopicPartition
from kohort.requests import FoundOffset, PartitionResults, list_offsets_request, read_offsets
from kohort.wire.messages.list_offsets import ListOffsetsResponse


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
    ) -> PartitionResults[FoundOffset | None]:
        return await ask_offsets(cluster, connection, some, read_committed=read_committed)

    return await ask_leaders(cluster, _checked(wanted), ask, timeout_ms, on_some)


async def ask_offsets(
    cluster: Cluster,
    connection: BrokerConnection,
    wanted: Mapping[TopicPartition, OffsetSpec | Millis],
    *,
    read_committed: bool,
) -> PartitionResults[FoundOffset | None]:
    """Send one request to one leader. Raises KafkaError for an error of the whole request."""
    request = list_offsets_request(
        wanted,
        read_committed=read_committed,
        timeout_ms=cluster.options.request_timeout_ms,
        leader_epoch=partial(leader_epoch, cluster),
    )
    return read_offsets(await connection.request(request, ListOffsetsResponse))


def _checked(wanted: Mapping[TopicPartition, OffsetSpec | Millis]) -> dict[TopicPartition, OffsetSpec | Millis]:
    return {
        (checked := partition_of(partition)): at
        if isinstance(at, OffsetSpec)
        else whole_number(f"the time for {checked}", at)
        for partition, at in wanted.items()
    }
