"""How far the logs reach and how fast they grow, measured every group.consumer.load.interval.ms.

Only for topics of groups whose assignor weighs it: where there is none, a measurement looks at no log. In a cluster the
brokers that lead a topic's other partitions are asked for their offsets, as any client asks them.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kohort.broker.shard import Shard
from kohort.coordinator import Extent
from kohort.errors import KafkaError
from kohort.model import UUID, Millis, TopicPartition

if TYPE_CHECKING:
    from kohort.broker.server import Broker
    from kohort.client.cluster import Cluster
    from kohort.client.offset_spec import OffsetSpec
    from kohort.client.offsets import FoundOffset

log = logging.getLogger("kohort.broker")

_PATIENCE_MS: Millis = 5_000
"""For an answer of another broker."""


class _Reach(NamedTuple):
    """From which offset to which a log reaches."""

    start: int
    end: int


class Loads:
    """One task of a running broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.measured: dict[tuple[UUID, int], tuple[Millis, int]] = {}
        """When each partition was measured last, and its end then."""
        self._elsewhere: dict[TopicPartition, _Reach] = {}
        """What other brokers said of the partitions that they lead."""
        self._cluster: Cluster | None = None
        """The other brokers, as this one's peers, from when they are asked for the first time."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Measure no more."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._cluster is not None:
            await self._cluster.close()

    def measure(self) -> None:
        """Tell the groups that weigh loads what they are now."""
        shards = self._weighing()
        measured: dict[tuple[UUID, int], tuple[Millis, int]] = {}
        extents = {name: self._extents(name, measured) for _, topics in shards for name in sorted(topics)}
        self.measured = measured
        for shard, topics in shards:
            shard.loads_measured({name: extents[name] for name in topics})

    def _weighing(self) -> list[tuple[Shard, Collection[str]]]:
        return [(shard, topics) for shard in self._broker.groups if (topics := shard.weighed_topics)]

    def _extents(self, name: str, measured: dict[tuple[UUID, int], tuple[Millis, int]]) -> list[Extent]:
        topic = self._broker.topics.named(name)
        extents: list[Extent] = []
        for partition in range(0 if topic is None else topic.partitions):
            assert topic is not None
            found = self._broker.topics.log(topic, partition)
            if found is not None:
                reach: _Reach | None = _Reach(found.start_offset, found.stable_offset)
            else:
                reach = self._elsewhere.get(TopicPartition(name, partition))
            if reach is None:  # its leader has not said it yet
                extents.append(Extent(0, 0, None))
                continue
            here, now = (topic.topic_id, partition), self._broker.now()
            measured[here] = (now, reach.end)
            extents.append(Extent(reach.start, reach.end, self._rate(here, now, reach.end)))
        return extents

    def _rate(self, partition: tuple[UUID, int], now: Millis, end: int) -> float | None:
        then, was = self.measured.get(partition, (now, end))
        return None if then >= now else max(0, end - was) * 1_000 / (now - then)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._broker.config.number("group.consumer.load.interval.ms") / 1000)
            await self._ask_others()
            self.measure()

    async def _ask_others(self) -> None:
        topics = self._broker.topics
        wanted = [
            TopicPartition(topic.name, partition)
            for name in sorted({name for _, names in self._weighing() for name in names})
            if (topic := topics.named(name)) is not None
            for partition in range(topic.partitions)
            if topics.log(topic, partition) is None
        ]
        if not wanted:
            self._elsewhere = {}
            return
        # Imported here: most brokers never ask anybody.
        from kohort.client.offset_spec import OffsetSpec

        starts = await self._offsets(wanted, OffsetSpec.EARLIEST)
        ends = await self._offsets(wanted, OffsetSpec.LATEST)
        known = {one: _Reach(starts[one].offset, ends[one].offset) for one in wanted if one in starts and one in ends}
        self._elsewhere = {one: self._elsewhere[one] for one in wanted if one in self._elsewhere} | known

    async def _offsets(
        self, wanted: Collection[TopicPartition], spec: "OffsetSpec"
    ) -> "dict[TopicPartition, FoundOffset]":
        from kohort.client.cluster import Cluster
        from kohort.client.offsets import list_offsets

        found: dict[TopicPartition, FoundOffset] = {}

        def note(some: "Mapping[TopicPartition, FoundOffset | None]") -> None:
            found.update({partition: one for partition, one in some.items() if one is not None})

        if self._cluster is None:
            brokers = ",".join(f"{node.host}:{node.port}" for node in self._broker.leadership.nodes)
            self._cluster = Cluster.of(brokers, request_timeout_ms=_PATIENCE_MS)
        try:
            await list_offsets(self._cluster, dict.fromkeys(wanted, spec), timeout_ms=0, on_some=note)
        except KafkaError as error:  # with the next measurement; what was known counts on
            log.info("other brokers' loads are not known: %s", error)
        return found
