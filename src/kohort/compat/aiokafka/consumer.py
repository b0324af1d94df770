"""`AIOKafkaConsumer` of aiokafka over `kohort.Consumer`."""

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

from kohort import client
from kohort.client import Phase
from kohort.compat.aiokafka import options
from kohort.compat.aiokafka.errors import NAMES, ConsumerStoppedError, IllegalOperation, IllegalStateError
from kohort.compat.aiokafka.leaving import Leaving
from kohort.compat.aiokafka.listener import ConsumerRebalanceListener, callbacks
from kohort.compat.aiokafka.structs import (
    ConsumerRecord,
    OffsetAndTimestamp,
    TopicPartition,
    consumer_record,
    partition_set,
)

_ALL = 2**31 - 1
_STARTING_S = 0.05
"""Time of one poll while `start` waits for the first assignment, in seconds."""


class AIOKafkaConsumer:
    """Consumer with the interface of aiokafka.

    Rebalances happen inside `start`, `getone` and `getmany`, which also run the listener.
    """

    def __init__(self, *topics: str, **configs: Any) -> None:
        self._group_id = configs.get("group_id")
        self._max_poll_records = configs.get("max_poll_records")
        self._request_timeout_s = configs.get("request_timeout_ms", 40_000) / 1000
        self._started = self._closed = False
        with NAMES.naming():
            self._consumer = client.Consumer(*topics, **options.read(options.CONSUMER, configs))
        self._consumer.deserialization.null_too = True
        self._leaving = Leaving(self._consumer)

    async def start(self) -> None:
        """Connect, and wait until the group has assigned partitions if the consumer has subscribed."""
        if self._started:
            raise IllegalStateError("Did you call `start` twice?")
        self._started = True
        with NAMES.naming():
            await self._consumer.cluster.refresh(self._consumer.subscription)
            async with self._topics_in_time():
                while self._lacks_assignment():
                    self._consumer.put_back(await self._consumer.poll_bytes(1, _STARTING_S))
            if self._consumer.assignment or self._consumer.subscription:  # the callbacks of the assignment run
                self._consumer.put_back(await self._consumer.poll_bytes(1, 0.0))

    @asynccontextmanager
    async def _topics_in_time(self) -> AsyncIterator[None]:
        """Raise UnknownTopicOrPartitionError if the topics of a consumer without a group do not appear in time."""
        try:
            async with asyncio.timeout(self._request_timeout_s if self._group_id is None else None):
                yield
        except TimeoutError:
            listed = ", ".join(sorted(self._consumer.subscription))
            raise client.KafkaError(client.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"not found: {listed}") from None

    def _lacks_assignment(self) -> bool:
        if not self._consumer.subscription:
            return False
        return not self._consumer.assignment if self._group_id is None else self._consumer.state is not Phase.STABLE

    async def stop(self) -> None:
        """Commit if auto commit is enabled, leave the group and disconnect."""
        self._closed = True
        with NAMES.naming():
            await self._leaving.wait()
            await self._consumer.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    # -- subscription and assignment

    def subscribe(
        self,
        topics: Collection[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, or to those whose names begin with a match of `pattern`."""
        if not (topics or pattern):
            raise TypeError("You should provide either `topics` or `pattern`")
        if topics and pattern:
            raise TypeError("You can't provide both `topics` and `pattern`")
        if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
            raise TypeError("listener should be an instance of ConsumerRebalanceListener")
        if not isinstance(topics, tuple | set | list):
            raise TypeError("Topics should be list of strings")
        try:
            # Kohort compares whole names, as Java does.
            wanted = list(topics) if pattern is None else re.compile(f"(?:{pattern}).*")
        except re.error as error:
            raise client.ConfigError(f"{pattern!r} is not a valid pattern: {error}") from error
        with NAMES.naming():
            self._leaving.then(lambda: self._consumer.subscribe(wanted, **callbacks(listener, self._leaves)))

    def assign(self, partitions: Iterable[client.TopicPartition]) -> None:
        """Consume exactly these partitions, without joining a group."""
        listed = list(partitions)
        with NAMES.naming():
            self._leaving.then(lambda: self._consumer.assign(listed))

    def unsubscribe(self) -> None:
        """Start to leave the group, or clear the manual assignment. The next call that is awaited waits for the end."""
        self._leaving.start()

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that are currently assigned."""
        return frozenset() if self._leaving.active else frozenset(partition_set(self._consumer.assignment))

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return frozenset() if self._leaving.active else self._consumer.subscription

    # -- records

    async def getone(self, *partitions: client.TopicPartition) -> ConsumerRecord:
        """Return the next record, of these partitions if some are given."""
        self._check_open()
        with NAMES.naming():
            await self._leaving.wait()
            if not partitions:
                try:
                    return consumer_record(await anext(self._consumer))
                except StopAsyncIteration:
                    raise ConsumerStoppedError("the consumer was stopped") from None
            async with self._only(partitions):
                while not (records := await self._consumer.poll(1, 1.0)):
                    self._check_open()
            return consumer_record(records[0])

    async def getmany(
        self, *partitions: client.TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return records by partition, or an empty dictionary after `timeout_ms`."""
        self._check_open()
        if max_records is not None and (not isinstance(max_records, int) or max_records < 1):
            raise client.ConfigError("`max_records` must be a positive Integer")
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        with NAMES.naming():
            await self._leaving.wait()
            async with self._only(partitions):
                records = await self._consumer.poll(max_records or self._max_poll_records or _ALL, timeout_ms / 1000)
        for record in records:
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(consumer_record(record))
        return found

    @asynccontextmanager
    async def _only(self, partitions: Collection[client.TopicPartition]) -> AsyncIterator[None]:
        """Pause all other partitions, if some are given."""
        others = self._consumer.assignment - set(partitions) - self._consumer.paused if partitions else frozenset()
        self._consumer.pause(others)
        try:
            yield
        finally:
            if not self._closed:
                self._consumer.resume(others & self._consumer.assignment)

    def __aiter__(self) -> Self:
        self._check_open()
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Return the next record. Iteration ends when the consumer is stopped."""
        try:
            return await self.getone()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    def pause(self, *partitions: client.TopicPartition) -> None:
        """Stop returning records of these partitions until `resume`."""
        with NAMES.naming():
            self._consumer.pause(partitions)

    def resume(self, *partitions: client.TopicPartition) -> None:
        """Return records of these partitions again."""
        with NAMES.naming():
            self._consumer.resume(partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        return partition_set(self._consumer.paused)

    # -- positions

    async def position(self, partition: client.TopicPartition) -> int:
        """Return the offset of the next record, waiting until it is known."""
        with NAMES.naming():
            await self._leaving.wait()
            self._check_assigned([partition])
            return await self._consumer.position(partition)

    def highwater(self, partition: client.TopicPartition) -> int | None:
        """Return the high watermark as of the last fetch; None before that."""
        self._check_assigned([partition])
        return self._consumer.highwater(partition)

    def seek(self, partition: client.TopicPartition, offset: int) -> None:
        """Continue from this offset."""
        if not isinstance(offset, int) or offset < 0:
            raise client.ConfigError("Offset must be a positive integer")

        def seek() -> None:
            self._check_assigned([partition])
            self._consumer.seek(partition, offset)

        self._leaving.then(seek)

    async def seek_to_beginning(self, *partitions: client.TopicPartition) -> bool:
        """Continue from the first offset of these partitions, or of all assigned ones."""
        return await self._sought(partitions, self._consumer.seek_to_beginning)

    async def seek_to_end(self, *partitions: client.TopicPartition) -> bool:
        """Continue from the end of these partitions, or of all assigned ones."""
        return await self._sought(partitions, self._consumer.seek_to_end)

    async def _sought(self, partitions: Collection[client.TopicPartition], seek: Any) -> bool:
        with NAMES.naming():
            await self._leaving.wait()
            wanted = self._wanted(partitions)
            seek(wanted)
            for partition in wanted:
                await self._consumer.position(partition)
        return True

    async def seek_to_committed(self, *partitions: client.TopicPartition) -> dict[TopicPartition, int | None]:
        """Continue from the committed offsets of these partitions, or of all assigned ones, and return them."""
        self._check_group()
        with NAMES.naming():
            await self._leaving.wait()
            wanted = self._wanted(partitions)
            found = await self._consumer.committed(wanted)
        for partition, at in found.items():
            if at is not None:
                self._consumer.seek(partition, at.offset)
        return {TopicPartition(*partition): None if at is None else at.offset for partition, at in found.items()}

    # -- commits

    async def commit(self, offsets: Mapping[client.TopicPartition, Any] | None = None) -> None:
        """Commit these offsets, as numbers or (offset, metadata), or the positions."""
        self._check_group()
        with NAMES.naming():
            await self._leaving.wait()
            if not self._consumer.assignment:
                raise IllegalStateError("No partitions assigned")
            if offsets is not None:
                self._check_assigned(offsets)
            await self._consumer.commit(None if offsets is None else {at: _position(to) for at, to in offsets.items()})

    async def committed(self, partition: client.TopicPartition) -> int | None:
        """Return the group's committed offset; None if there is none."""
        self._check_group()
        with NAMES.naming():
            (at,) = (await self._consumer.committed([partition])).values()
        return None if at is None else at.offset

    # -- topics and their offsets

    async def topics(self) -> set[str]:
        """Return the names of all topics, except for internal ones."""
        with NAMES.naming():
            known = await self._consumer.cluster.metadata_of(None)
        return {name for name, topic in known.topics.items() if not topic.internal}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the numbers of the topic's partitions; None if the consumer has no metadata of it."""
        known = self._consumer.cluster.metadata.topics.get(topic)
        return set(known.leaders) if known is not None and known.exists else None

    async def beginning_offsets(self, partitions: Iterable[client.TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return await _offsets(self._consumer.beginning_offsets(list(partitions)))

    async def end_offsets(self, partitions: Iterable[client.TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the next record to be appended to each partition."""
        return await _offsets(self._consumer.end_offsets(list(partitions)))

    async def offsets_for_times(
        self, timestamps: Mapping[client.TopicPartition, float]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset of the first record at or after each timestamp; None if all are older."""
        times = {partition: int(timestamp) for partition, timestamp in timestamps.items()}
        if any(timestamp < 0 for timestamp in times.values()):
            raise client.ConfigError("The target time cannot be negative.")
        with NAMES.naming():
            found = await self._consumer.offsets_for_times(times)
        return {
            TopicPartition(*partition): None if at is None else OffsetAndTimestamp(at.offset, at.timestamp)
            for partition, at in found.items()
        }

    # -- checks

    def _check_open(self) -> None:
        if self._closed:
            raise ConsumerStoppedError("the consumer was stopped")

    def _leaves(self) -> bool:
        """Return whether the application stops or unsubscribes, which aiokafka does not tell the listener."""
        return self._closed or self._leaving.active

    def _check_group(self) -> None:
        if self._group_id is None:
            raise IllegalOperation("Requires group_id")

    def _check_assigned(self, partitions: Iterable[client.TopicPartition]) -> None:
        if others := set(partitions) - self._consumer.assignment:
            raise IllegalStateError(f"Partitions {others} are not assigned")

    def _wanted(self, partitions: Collection[client.TopicPartition]) -> Collection[client.TopicPartition]:
        if not all(isinstance(partition, client.TopicPartition) for partition in partitions):
            raise TypeError("partitions must be TopicPartition instances")
        self._check_assigned(partitions)
        if not (wanted := partitions or self._consumer.assignment):
            raise IllegalStateError("No partitions are currently assigned")
        return wanted


async def _offsets(asked: Coroutine[Any, Any, dict[client.TopicPartition, int]]) -> dict[TopicPartition, int]:
    with NAMES.naming():
        return {TopicPartition(*partition): offset for partition, offset in (await asked).items()}


def _position(given: Any) -> client.OffsetAndMetadata | int:
    return client.OffsetAndMetadata(given[0], given[1]) if isinstance(given, tuple) else int(given)
