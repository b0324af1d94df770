"""Offsets of partitions, asked of their leaders: the first, the next, or the first at a time."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from kohort.client.cluster import Cluster
from kohort.client.offset_spec import OffsetSpec
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.model import Millis, TopicPartition
from kohort.wire.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """`timestamp` is None where a spec was asked for rather than a time."""

    offset: int
    timestamp: Millis | None = None
    leader_epoch: int | None = None


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, OffsetSpec | Millis],
    *,
    read_committed: bool = False,
    timeout_ms: Millis | None = None,
) -> dict[TopicPartition, FoundOffset | None]:
    """By partition; None where no record is that young. Raises KafkaError, when retrying did not help."""
    found: dict[TopicPartition, FoundOffset | None] = {}

    async def attempt() -> dict[TopicPartition, FoundOffset | None]:
        missing = {partition: spec for partition, spec in wanted.items() if partition not in found}
        unknown = {partition.topic for partition in missing if cluster.metadata.leader(partition) is None}
        if unknown:
            await cluster.refresh(unknown)
        by_node: dict[int, dict[TopicPartition, OffsetSpec | Millis]] = defaultdict(dict)
        for partition, spec in missing.items():
            by_node[cluster.leader_of(partition)][partition] = spec
        asked = [_ask(cluster, node, some, read_committed) for node, some in by_node.items()]
        problem: BaseException | None = None
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, BaseException):
                problem = answer
                continue
            some, refused = answer
            found.update(some)
            if refused is not None:
                problem = refused
        if problem is not None:
            cluster.want_metadata()
            raise problem
        return found

    return await cluster.retrying(attempt, timeout_ms)


async def _ask(
    cluster: Cluster, node: int, wanted: Mapping[TopicPartition, OffsetSpec | Millis], read_committed: bool
) -> tuple[dict[TopicPartition, FoundOffset | None], KafkaError | None]:
    topics: dict[str, ListOffsetsTopic] = {}
    for partition, spec in wanted.items():
        topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic, partitions=[]))
        leader = cluster.metadata.leader(partition)
        epoch = -1 if leader is None or leader.epoch is None else leader.epoch
        topic.partitions.append(
            ListOffsetsPartition(partition_index=partition.partition, current_leader_epoch=epoch, timestamp=int(spec))
        )
    connection = await cluster.connection(node)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1 if read_committed else 0,
        topics=list(topics.values()),
        timeout_ms=cluster.options.request_timeout_ms,
    )
    response = await connection.request(request, ListOffsetsResponse)
    found: dict[TopicPartition, FoundOffset | None] = {}
    refused: KafkaError | None = None
    for answered in response.topics:
        for one in answered.partitions:
            partition = TopicPartition(answered.name, one.partition_index)
            if one.error_code != ErrorCode.NONE:
                refused = KafkaError(error_code(one.error_code), f"{partition}: {error_code(one.error_code).sentence}")
            elif one.offset < 0:
                found[partition] = None
            else:
                found[partition] = FoundOffset(
                    one.offset,
                    None if one.timestamp < 0 else one.timestamp,
                    None if one.leader_epoch < 0 else one.leader_epoch,
                )
    return found, refused
