"""Sizes and start offsets of partition logs."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kohort.client.arguments import partition_of, whole_number
from kohort.client.net import BrokerConnection, Cluster, ask_leaders
from kohort.errors import KafkaError
from kohort.model import TopicPartition
from kohort.requests import PartitionResults, check
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kohort.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """Log directory of a broker. The sizes of its file system are None if the broker is too old (KIP-827)."""

    node_id: int
    path: str
    sizes: Mapping[TopicPartition, int]
    total_bytes: int | None
    usable_bytes: int | None


async def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Delete records before these offsets (-1: all records) and return the new start offsets.

    Raises the first error after the other partitions are done.
    """

    async def ask(connection: BrokerConnection, some: Mapping[TopicPartition, int]) -> PartitionResults[int]:
        topics: dict[str, DeleteRecordsTopic] = {}
        for partition, offset in some.items():
            topic = topics.setdefault(partition.topic, DeleteRecordsTopic(name=partition.topic, partitions=[]))
            topic.partitions.append(DeleteRecordsPartition(partition_index=partition.partition, offset=offset))
        request = DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=cluster.options.request_timeout_ms)
        return _deleted(await connection.request(request, DeleteRecordsResponse))

    wanted = {
        (checked := partition_of(partition)): whole_number(f"the offset of {checked}", at, -1)
        for partition, at in before.items()
    }
    return await ask_leaders(cluster, wanted, ask)


def _deleted(response: DeleteRecordsResponse) -> PartitionResults[int]:
    done: dict[TopicPartition, int] = {}
    refused: dict[TopicPartition, KafkaError] = {}
    for answered in response.topics:
        for result in answered.partitions:
            partition = TopicPartition(answered.name, result.partition_index)
            try:
                check(result.error_code, str(partition))
            except KafkaError as problem:
                refused[partition] = problem
            else:
                done[partition] = result.low_watermark
    return done, refused


async def describe_log_dirs(cluster: Cluster, topics: Collection[str] | None) -> list[LogDirectory]:
    """Return each broker's log directories.

    Each has the sizes of the partitions of these topics, or of all, in bytes.
    """
    await cluster.retrying(cluster.refresh)
    wanted = None
    if topics is not None:
        known = await cluster.retrying(lambda: cluster.refresh(topics))
        wanted = [
            DescribableLogDirTopic(topic=name, partitions=list(range(known.partitions(name))))
            for name in dict.fromkeys(topics)
        ]
    request = DescribeLogDirsRequest(topics=wanted)

    async def ask(node: int) -> list[LogDirectory]:
        async def attempt() -> list[LogDirectory]:
            connection = await cluster.connection(node)
            response = await connection.request(request, DescribeLogDirsResponse)
            check(response.error_code, f"broker {node}")
            return [_directory(node, directory) for directory in response.results]

        return await cluster.retrying(attempt)

    answers = await asyncio.gather(*(ask(node) for node in sorted(cluster.metadata.brokers)))
    return [directory for answer in answers for directory in answer]


def _directory(node: int, result: DescribeLogDirsResult) -> LogDirectory:
    check(result.error_code, result.log_dir)
    sizes = {
        TopicPartition(topic.name, entry.partition_index): entry.partition_size
        for topic in result.topics
        for entry in topic.partitions
        if not entry.is_future_key
    }
    total, usable = (None if value < 0 else value for value in (result.total_bytes, result.usable_bytes))
    return LogDirectory(node, result.log_dir, sizes, total, usable)
