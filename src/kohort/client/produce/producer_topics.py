"""Topics to which a producer writes."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractContextManager

from kohort.client.arguments import names_of
from kohort.client.net import Cluster
from kohort.client.options import ProducerOptions
from kohort.client.produce.batches import PartitionQueue
from kohort.client.produce.partitioner import KeyRule, Partitioner, PartitionerFunction, partitioner_of
from kohort.errors import ErrorCode, KafkaError
from kohort.model import TopicPartition


class ProducerTopic:
    """One topic: a queue for each partition, and the partitioner."""

    __slots__ = ("name", "partitioner", "queues")

    def __init__(self, name: str, count: int, batch_size: int, choice: KeyRule | PartitionerFunction) -> None:
        self.name = name
        self.partitioner = Partitioner(count, batch_size, choice)
        self.queues = [PartitionQueue(TopicPartition(name, number)) for number in range(count)]

    def resize(self, count: int) -> None:
        """Set the partition count: higher, or lower if the topic was deleted and created again."""
        for number in range(len(self.queues), count):
            self.queues.append(PartitionQueue(TopicPartition(self.name, number)))
        self.partitioner.resize(count)


class ProducerTopics:
    """Topics by name, each since it was first requested. Their partitions change while the lock is held."""

    def __init__(self, cluster: Cluster, options: ProducerOptions, lock: AbstractContextManager[object]) -> None:
        self.known: dict[str, ProducerTopic] = {}
        self._cluster = cluster
        self._options = options
        self._lock = lock
        self._choice = partitioner_of(options.partitioner)
        self._searches: dict[str, asyncio.Task[None]] = {}

    def count(self, topic: str) -> int | None:
        """Return the topic's partition count; None if it is not known yet. Safe to call from any thread."""
        known = self.known.get(topic)
        return None if known is None else known.partitioner.count

    def refusal(self, topic: str) -> KafkaError | None:
        """Return the latest metadata error of the topic; None if it is known or no broker has answered yet."""
        answered = self._cluster.metadata.topics.get(topic)
        if topic in self.known or answered is None or answered.error is ErrorCode.NONE:
            return None
        return KafkaError(answered.error, f"{topic}: {answered.error.sentence}")

    async def find(self, topic: str) -> None:
        """Wait until the topic is known. Raises KafkaError after max_block_ms."""
        if topic in self.known:
            return
        names_of([topic])
        task = self._searches.get(topic)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._find(topic), name=f"kohort-topic {topic}")
            self._searches[topic] = task
            task.add_done_callback(lambda done: self._ended(topic, done))
        await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel all searches."""
        tasks = list(self._searches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for topic in self.known:
            self._cluster.unwatch((self, topic))

    def _ended(self, topic: str, search: "asyncio.Task[None]") -> None:
        del self._searches[topic]
        if not search.cancelled():
            search.exception()  # its waiters may have given up; `ready` reports the reason itself

    async def _find(self, topic: str) -> None:
        async def attempt() -> int:
            known = (await self._cluster.refresh((topic,))).topics[topic]
            if known.exists:
                return len(known.leaders)
            code = known.error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise KafkaError(code, f"{topic}: {code.sentence}")

        count = await self._cluster.retrying(attempt, self._options.max_block_ms)
        known = ProducerTopic(topic, count, self._options.batch_size, self._choice)
        known.partitioner.led(self._led(topic))
        self.known[topic] = known
        self._cluster.watch((self, topic), frozenset((topic,)), self._changed)

    def _changed(self, counts: Mapping[str, int], asked: frozenset[str]) -> None:
        with self._lock:
            for topic, count in counts.items():
                known = self.known[topic]
                if count != known.partitioner.count:
                    known.resize(count)
                known.partitioner.led(self._led(topic))

    def _led(self, topic: str) -> list[int]:
        """Return the partitions whose leader is a known broker, as Java's `availablePartitionsForTopic` does."""
        metadata = self._cluster.metadata
        leaders = metadata.topics[topic].leaders
        return [number for number, leader in leaders.items() if leader.node_id in metadata.brokers]
