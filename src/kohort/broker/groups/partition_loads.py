"""The extent of each partition's log and its rate of growth, measured every group.consumer.load.interval.ms.

Only topics of groups whose assignor weighs partition loads are measured; without such groups, no log is examined. In a
cluster, the broker asks the leaders of the other partitions for their offsets, through the listener for brokers.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kohort.broker.config import BrokerConfig, InterBroker, address_text
from kohort.broker.groups.coordinator import GroupCoordinator
from kohort.broker.groups.shard import Shard
from kohort.broker.logs import Leadership, Topics
from kohort.coordinator import PartitionExtent
from kohort.errors import ConfigError, KafkaError
from kohort.model import UUID, Millis, TopicPartition

if TYPE_CHECKING:
    from kohort.client import Cluster, OffsetSpec
    from kohort.requests import FoundOffset


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig
    groups: GroupCoordinator
    inter_broker: InterBroker
    leadership: Leadership
    topics: Topics

    def now(self) -> Millis: ...


log = logging.getLogger("kohort.broker")

_PATIENCE_MS: Millis = 5_000
"""Time limit for an answer from another broker."""


class _Extent(NamedTuple):
    """Start and end offset of a log."""

    start: int
    end: int


class PartitionLoads:
    """The measuring task of a running broker."""

    def __init__(self, broker: Dependencies) -> None:
        self._broker = broker
        self.measured: dict[tuple[UUID, int], tuple[Millis, int]] = {}
        """When each partition was last measured, and its end offset at that time."""
        self._elsewhere: dict[TopicPartition, _Extent] = {}
        """The last known offsets of partitions that other brokers lead."""
        self._cluster: Cluster | None = None
        """Client connections to the other brokers; created when they are first asked."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop measuring."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._cluster is not None:
            await self._cluster.close()

    def measure(self) -> None:
        """Measure the loads once and pass them to the groups that weigh them."""
        shards = self._measured_topics()
        measured: dict[tuple[UUID, int], tuple[Millis, int]] = {}
        extents = {name: self._extents(name, measured) for _, topics in shards for name in sorted(topics)}
        self.measured = measured
        for shard, topics in shards:
            shard.loads_measured({name: extents[name] for name in topics})

    def _measured_topics(self) -> list[tuple[Shard, Collection[str]]]:
        return [(shard, topics) for shard in self._broker.groups if (topics := shard.weighed_topics)]

    def _extents(self, name: str, measured: dict[tuple[UUID, int], tuple[Millis, int]]) -> list[PartitionExtent]:
        topic = self._broker.topics.named(name)
        extents: list[PartitionExtent] = []
        for partition in range(0 if topic is None else topic.partitions):
            assert topic is not None
            found = self._broker.topics.log(topic, partition)
            if found is not None:
                reach: _Extent | None = _Extent(found.start_offset, found.stable_offset)
            else:
                reach = self._elsewhere.get(TopicPartition(name, partition))
            if reach is None:  # its leader has not answered yet
                extents.append(PartitionExtent(0, 0, None))
                continue
            here, now = (topic.topic_id, partition), self._broker.now()
            measured[here] = (now, reach.end)
            extents.append(PartitionExtent(reach.start, reach.end, growth(self.measured.get(here), now, reach.end)))
        return extents

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._broker.config.number("group.consumer.load.interval.ms") / 1000)
            await self._ask_others()
            self.measure()

    async def _ask_others(self) -> None:
        topics = self._broker.topics
        wanted = [
            TopicPartition(topic.name, partition)
            for name in sorted({name for _, names in self._measured_topics() for name in names})
            if (topic := topics.named(name)) is not None
            for partition in range(topic.partitions)
            if topics.log(topic, partition) is None
        ]
        self._elsewhere = {
            partition: self._elsewhere[partition] for partition in wanted if partition in self._elsewhere
        }
        if not wanted or self._broker.inter_broker.problem:  # which the broker logged when it started
            return
        # Imported here because most brokers never ask another broker.
        from kohort.client import OffsetSpec

        starts = await self._offsets(wanted, OffsetSpec.EARLIEST)
        ends = await self._offsets(starts, OffsetSpec.LATEST) if starts else {}
        self._elsewhere |= {
            partition: _Extent(start.offset, ends[partition].offset)
            for partition, start in starts.items()
            if partition in ends
        }

    async def _offsets(
        self, wanted: Collection[TopicPartition], spec: "OffsetSpec"
    ) -> "dict[TopicPartition, FoundOffset]":
        from kohort.client.net import list_offsets

        found: dict[TopicPartition, FoundOffset] = {}

        def note(some: "Mapping[TopicPartition, FoundOffset | None]") -> None:
            found.update({partition: load for partition, load in some.items() if load is not None})

        try:
            if self._cluster is None:
                self._cluster = self._connected()
            await list_offsets(self._cluster, dict.fromkeys(wanted, spec), timeout_ms=0, on_some=note)
        except (KafkaError, ConfigError) as error:  # retried at the next measurement; known offsets stay in use
            level = logging.INFO if isinstance(error, KafkaError) and error.retriable else logging.WARNING
            log.log(level, "other brokers' loads are not known: %s", error)
            if self._cluster is not None:  # the next one reads renewed certificates
                await self._cluster.close()
                self._cluster = None
        return found

    def _connected(self) -> "Cluster":
        """Return client connections to the other brokers."""
        from kohort.client import ClientOptions, Cluster

        ways = self._broker.inter_broker
        nodes = [found for node in self._broker.leadership.nodes if (found := node.at(ways.listener)) is not None]
        servers = ",".join(address_text(node.host, node.port) for node in nodes)
        given = {"bootstrap_servers": servers, "request_timeout_ms": _PATIENCE_MS, **ways.options}
        return Cluster(ClientOptions.read(given))


def growth(before: tuple[Millis, int] | None, now: Millis, end: int) -> float | None:
    """Return a log's growth in records per second since `before`, an earlier time and end offset; None if unknown."""
    if before is None or before[0] >= now:
        return None
    then, end_then = before
    return max(0, end - end_then) * 1_000 / (now - then)
