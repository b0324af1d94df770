"""How far the logs reach and how fast they grow, measured every group.consumer.load.interval.ms.

Only for topics of groups whose assignor weighs it: where there is none, a measurement looks at no log.
"""

import asyncio
from typing import TYPE_CHECKING

from kohort.coordinator import Extent
from kohort.model import UUID, Millis

if TYPE_CHECKING:
    from kohort.broker.server import Broker


class Loads:
    """One task of a running broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.measured: dict[tuple[UUID, int], tuple[Millis, int]] = {}
        """When each partition was measured last, and its end then."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """Measure no more."""
        self._task.cancel()

    def measure(self) -> None:
        """Tell the groups that weigh loads what they are now."""
        shards = [(shard, topics) for shard in self._broker.groups if (topics := shard.weighed_topics)]
        measured: dict[tuple[UUID, int], tuple[Millis, int]] = {}
        extents = {name: self._extents(name, measured) for _, topics in shards for name in sorted(topics)}
        self.measured = measured
        for shard, topics in shards:
            shard.loads_measured({name: extents[name] for name in topics})

    def _extents(self, name: str, measured: dict[tuple[UUID, int], tuple[Millis, int]]) -> list[Extent]:
        topic = self._broker.topics.named(name)
        extents: list[Extent] = []
        for partition in range(0 if topic is None else topic.partitions):
            assert topic is not None
            log = self._broker.topics.log(topic, partition)
            if log is None:  # another broker leads it, and only it knows
                extents.append(Extent(0, 0, None))
                continue
            here = (topic.topic_id, partition)
            now, end = self._broker.now(), log.stable_offset
            measured[here] = (now, end)
            extents.append(Extent(log.start_offset, end, self._rate(here, now, end)))
        return extents

    def _rate(self, partition: tuple[UUID, int], now: Millis, end: int) -> float | None:
        then, was = self.measured.get(partition, (now, end))
        return None if then >= now else max(0, end - was) * 1_000 / (now - then)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._broker.config.number("group.consumer.load.interval.ms") / 1000)
            self.measure()
