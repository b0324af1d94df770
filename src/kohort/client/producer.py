"""Records out: gathered per partition, sent to the leaders, sent again until written or too late."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from kohort.client.arguments import names_of, seconds, whole
from kohort.client.batches import Delivery, PartitionQueue
from kohort.client.closing import undisturbed
from kohort.client.cluster import Cluster
from kohort.client.failures import BufferFullError, ClosedError
from kohort.client.options import ProducerOptions, read_options
from kohort.client.partitioner import Partitioner
from kohort.client.sender import Sender
from kohort.errors import ConfigError, ErrorCode, KafkaError
from kohort.model import Millis, TopicPartition
from kohort.wire.records import Header

_log = logging.getLogger(__name__)

_RECORD_OVERHEAD = 24  # lengths, deltas and attributes at their usual sizes
_RECORDS_PER_TURN = 1000  # after so many the loop gets a turn, so that sending goes along with gathering


class _Topic:
    """What a producer knows of a topic that it writes to."""

    __slots__ = ("partitioner", "queues")

    def __init__(self, name: str, count: int, batch_size: int) -> None:
        self.partitioner = Partitioner(count, batch_size)
        self.queues = [PartitionQueue(TopicPartition(name, number)) for number in range(count)]

    def resize(self, name: str, count: int) -> None:
        for number in range(len(self.queues), count):
            self.queues.append(PartitionQueue(TopicPartition(name, number)))
        self.partitioner.resize(count)


class Producer:
    """Use it as an async context manager, or close it. All methods belong to the event loop it was made in.

    async with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
        delivery = await producer.send("orders", b"...", key=b"42")  # queued
        print((await delivery).offset)  # written
    """

    def __init__(self, **options: Any) -> None:
        self._options = read_options(ProducerOptions, options)
        if "enable_idempotence" in options and self._options.enable_idempotence and not self._options.acks_all:
            raise ConfigError("enable_idempotence needs acks=all; set it to false for other acks.")
        self.cluster = Cluster(self._options)
        """What it knows of the brokers, to look at."""
        self._loop = asyncio.get_running_loop()
        self._topics: dict[str, _Topic] = {}
        self._waiting_for: dict[str, asyncio.Task[None]] = {}
        self._sender = Sender(self.cluster, self._options)
        self._gathered = self._sender.accumulator
        self._turn_left = _RECORDS_PER_TURN
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        await self.close(timeout=None if kind is None else 0.0)

    # -- sending

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: Millis | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> Delivery:
        """Queue a record; await what it returns to know that it was written.

        Waits while the topic is not known yet and while the buffer is full, up to max_block_ms.
        """
        self._turn_left -= 1
        if self._turn_left < 0:
            self._turn_left = _RECORDS_PER_TURN
            await asyncio.sleep(0)
        while True:
            try:
                return self._queue(topic, value, key, timestamp, headers, partition)
            except BufferFullError:
                await self._wait_for_room(topic)

    def send_nowait(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: Millis | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> Delivery:
        """As `send`, without a coroutine. Raises BufferFullError where `send` would wait: then `await ready(topic)`."""
        return self._queue(topic, value, key, timestamp, headers, partition)

    def _queue(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        timestamp: Millis | None,
        headers: Sequence[Header],
        partition: int | None,
    ) -> Delivery:
        known = self._topics.get(topic)
        if known is None:
            raise BufferFullError(f"the partitions of {topic} are not known yet: await ready({topic!r}) first.")
        size = _RECORD_OVERHEAD
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        if headers:
            size += sum(len(name) + len(content or b"") + 10 for name, content in headers)
        if partition is None:
            partitioner = known.partitioner
            partition = partitioner.without_key(size) if key is None else partitioner.by_key(key)
        elif not 0 <= (partition := whole("partition", partition, None)) < len(known.queues):
            detail = f"{topic} has partitions 0 to {len(known.queues) - 1}, not {partition}"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
        if timestamp is None:
            timestamp = time.time_ns() // 1_000_000
        elif type(timestamp) is not int or timestamp < 0:
            timestamp = whole("timestamp", timestamp)
        return self._gathered.append(known.queues[partition], timestamp, key, value, headers, size)

    async def ready(self, topic: str) -> None:
        """Wait until the topic's partitions are known and the buffer has room. Raises KafkaError after max_block_ms."""
        await self._wait_for_room(topic)

    async def partitions_for(self, topic: str) -> int:
        """How many partitions the topic has."""
        await self._wait_for_topic(topic)
        return len(self._topics[topic].queues)

    async def send_all(
        self, topic: str, records: Iterable[tuple[bytes | None, bytes | None, Millis | None]]
    ) -> list[Delivery]:
        """Queue many records of (key, value, timestamp), giving way to the loop now and then."""
        return [await self.send(topic, value, key=key, timestamp=timestamp) for key, value, timestamp in records]

    # -- until it is written

    async def flush(self) -> None:
        """Wait until everything queued so far is written or has failed."""
        await self._sender.flush()

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Flush for as long as `timeout` seconds (None: as delivery_timeout_ms allows), fail the rest, disconnect.

        Closing twice is fine.
        """
        patience = None if timeout is None else seconds("timeout", timeout)
        if self._closed:
            return
        self._closed = True
        try:
            async with asyncio.timeout(patience):
                await self._sender.flush()
        except TimeoutError:
            _log.warning("closed with records that were not written")
        finally:
            await undisturbed(self._clean_up())

    async def _clean_up(self) -> None:
        tasks = list(self._waiting_for.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._sender.close()
        await self.cluster.close()

    # -- what sending waits for

    async def _wait_for_room(self, topic: str) -> None:
        if self._closed:
            raise ClosedError("the producer is closed.")
        try:
            async with asyncio.timeout(self._options.max_block_ms / 1000):
                await self._wait_for_topic(topic)
                await self._gathered.room()
        except TimeoutError:
            detail = f"no room for a record to {topic} within max_block_ms: the brokers take records too slowly"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail) from None

    async def _wait_for_topic(self, topic: str) -> None:
        if topic in self._topics:
            return
        names_of([topic])
        task = self._waiting_for.get(topic)
        if task is None:
            task = self._loop.create_task(self._find_topic(topic), name=f"kohort-topic {topic}")
            self._waiting_for[topic] = task
            task.add_done_callback(lambda _: self._waiting_for.pop(topic, None))
        await asyncio.shield(task)

    async def _find_topic(self, topic: str) -> None:
        async def attempt() -> int:
            known = (await self.cluster.refresh((topic,))).topics.get(topic)
            if known is not None and known.exists:
                return len(known.leaders)
            code = known.error if known is not None and known.error else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise KafkaError(code, f"{topic}: {code.sentence}")

        count = await self.cluster.retrying(attempt, self._options.max_block_ms)
        self._topics[topic] = _Topic(topic, count, self._options.batch_size)
        self.cluster.watch((self, topic), frozenset((topic,)), self._counts_changed)

    def _counts_changed(self, partitions: Mapping[str, int], asked: frozenset[str]) -> None:
        for topic, count in partitions.items():
            known = self._topics[topic]
            if count > len(known.queues):
                known.resize(topic, count)
