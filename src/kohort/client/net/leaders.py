"""Requests to the leaders of many partitions, repeated where a leader has moved."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from kohort.client.net.cluster import Cluster
from kohort.client.net.connection import BrokerConnection
from kohort.errors import KafkaError
from kohort.model import Millis, TopicPartition
from kohort.requests import PartitionResults

_W = TypeVar("_W")
_R = TypeVar("_R")


async def ask_leaders(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, _W],
    ask: Callable[[BrokerConnection, Mapping[TopicPartition, _W]], Awaitable[PartitionResults[_R]]],
    timeout_ms: Millis | None = None,
    on_some: Callable[[Mapping[TopicPartition, _R]], None] | None = None,
) -> dict[TopicPartition, _R]:
    """Return the result of `ask` for each partition.

    `on_some` receives partial results as they arrive. Raises the error of one partition if retries
    did not help, after the other partitions are done.
    """
    found: dict[TopicPartition, _R] = {}

    async def attempt() -> dict[TopicPartition, _R]:
        missing = {partition: wanted_value for partition, wanted_value in wanted.items() if partition not in found}
        unknown = {partition.topic for partition in missing if cluster.metadata.leader(partition) is None}
        if unknown:
            await cluster.refresh(unknown)
        problem: BaseException | None = None
        by_node: dict[int, dict[TopicPartition, _W]] = defaultdict(dict)
        for partition, wanted_value in missing.items():
            try:
                by_node[cluster.leader_of(partition)][partition] = wanted_value
            except KafkaError as leaderless:
                problem = leaderless

        async def ask_one(node: int, some: Mapping[TopicPartition, _W]) -> KafkaError | None:
            brought, refused = await ask(await cluster.connection(node), some)
            found.update(brought)
            if on_some is not None:
                on_some(brought)
            return next(reversed(refused.values()), None)

        asked = [ask_one(node, some) for node, some in by_node.items()]
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            problem = answer or problem
        if problem is not None:
            cluster.want_metadata({partition.topic for partition in missing if partition not in found})
            raise problem
        return found

    return await cluster.retrying(attempt, timeout_ms)


def leader_epoch(cluster: Cluster, partition: TopicPartition) -> int:
    """Return the leader epoch to send in a request; -1 if unknown."""
    leader = cluster.metadata.leader(partition)
    return -1 if leader is None or leader.epoch is None else leader.epoch
