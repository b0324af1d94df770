"""`KafkaConsumer` of kafka-python over `kohort.blocking.Consumer`."""

import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from kohort import client
from kohort.client import blocking
from kohort.compat.kafka_python import options
from kohort.compat.kafka_python.errors import NAMES, IllegalStateError, KafkaTimeoutError
from kohort.compat.kafka_python.futures import Future
from kohort.compat.kafka_python.listener import callbacks
from kohort.compat.kafka_python.metrics import metrics_of
from kohort.compat.kafka_python.structs import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    MemberState,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    consumer_record,
    partition_set,
    position_of,
    positions,
)

_T = TypeVar("_T")
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})

Offsets = Mapping[client.TopicPartition, Any]
"""Offsets to commit, as numbers or as OffsetAndMetadata."""


class _Consumer(blocking.Consumer):
    def deserialize_null_too(self) -> None:
        """Call the deserializers for null, as kafka-python does."""
        self._consumer.deserialization.null_too = True

    def within(self, timeout_ms: float | None, work: Callable[[client.Consumer], Coroutine[Any, Any, _T]]) -> _T:
        """Run work with the asyncio consumer. Raises KafkaTimeoutError after `timeout_ms`."""
        try:
            return self._call(lambda: work(self._consumer), None if timeout_ms is None else timeout_ms / 1000)
        except TimeoutError:
            raise KafkaTimeoutError(f"no answer within {timeout_ms} ms") from None


class KafkaConsumer:
    """Consumer with the interface of kafka-python. Times are in milliseconds.

    It connects when it is first used. Only one thread at a time may use it.
    """

    DEFAULT_CONFIG: Mapping[str, Any] = options.CONSUMER.defaults

    def __init__(self, *topics: str, **configs: Any) -> None:
        self.config = {**self.DEFAULT_CONFIG, **configs}
        self._subscribed = bool(topics)
        self._unsubscribes = False
        with NAMES.naming():
            self._consumer = _Consumer(*topics, **options.CONSUMER.read(configs))
        self._consumer.deserialize_null_too()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close(autocommit=kind is None)

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Leave the group and disconnect, after a commit if auto commit is enabled and `autocommit` is true."""
        limit_ms = self.config["request_timeout_ms"] if timeout_ms is None else timeout_ms
        with NAMES.naming():
            self._consumer.close(timeout=limit_ms / 1000, commit=autocommit)
        for name in ("key_deserializer", "value_deserializer"):
            if (close := getattr(self.config[name], "close", None)) is not None:
                close()

    # -- subscription and assignment

    def subscribe(self, topics: Sequence[str] = (), pattern: str | None = None, listener: object | None = None) -> None:
        """Subscribe to topics, or to those whose names begin with a match of `pattern`."""
        if not topics and not pattern:
            raise client.ConfigError("Must provide topics or pattern")
        if topics and pattern:
            raise IllegalStateError("topics and pattern exclude each other")
        if isinstance(topics, str) or not isinstance(topics, Sequence):
            raise TypeError("Topics must be a list (or non-str sequence)")
        # Kohort compares whole names, as Java does.
        wanted = re.compile(f"(?:{pattern}).*") if pattern else list(topics)
        with NAMES.naming():
            self._consumer.subscribe(wanted, **callbacks(listener, lambda: self._unsubscribes))
        self._subscribed = True

    def assign(self, partitions: Collection[client.TopicPartition]) -> None:
        """Consume exactly these partitions, without joining a group."""
        if not partitions:
            self.unsubscribe()
            return
        with NAMES.naming():
            self._consumer.assign(partitions)

    def unsubscribe(self) -> None:
        """Leave the group, or clear the manual assignment."""
        self._unsubscribes = True
        try:
            with NAMES.naming():
                self._consumer.unsubscribe()
        finally:
            self._unsubscribes = False
        self._subscribed = False

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are currently assigned."""
        with NAMES.naming():
            return partition_set(self._consumer.assignment)

    def subscription(self) -> set[str] | None:
        """Return the subscribed topics; None without a subscription."""
        with NAMES.naming():
            return set(self._consumer.subscription) if self._subscribed else None

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the current membership of the group."""
        if self.config["group_id"] is None:
            return ConsumerGroupMetadata()
        with NAMES.naming():
            generation, member_id = self._consumer.generation, self._consumer.member_id
        return ConsumerGroupMetadata(
            self.config["group_id"],
            -1 if generation is None else generation,
            member_id,
            self.config["group_instance_id"],
            MemberState.UNJOINED if generation is None else MemberState.STABLE,
        )

    # -- records

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return records by partition, or an empty dictionary after `timeout_ms`."""
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        with NAMES.naming():
            for record in self._consumer.poll(max_records, timeout_ms / 1000):
                found.setdefault(TopicPartition(record.topic, record.partition), []).append(consumer_record(record))
        return found

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next record. Iteration ends after consumer_timeout_ms without one."""
        try:
            return consumer_record(next(self._consumer))
        except client.KohortError as error:
            named = NAMES.named(error)
            raise named from named.__cause__

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
        with NAMES.naming():
            return partition_set(self._consumer.paused)

    # -- positions

    def position(self, partition: client.TopicPartition, timeout_ms: float | None = None) -> int | None:
        """Return the offset of the next record; None if it is not known within `timeout_ms`."""
        self._check_assigned(partition)
        with NAMES.naming():
            try:
                return self._consumer.within(timeout_ms, lambda consumer: consumer.position(partition))
            except KafkaTimeoutError:
                return None

    def highwater(self, partition: client.TopicPartition) -> int | None:
        """Return the high watermark as of the last fetch; None before that."""
        self._check_assigned(partition)
        with NAMES.naming():
            return self._consumer.highwater(partition)

    def seek(self, partition: client.TopicPartition, offset: int) -> None:
        """Continue from this offset."""
        if not isinstance(offset, int) or offset < 0:
            raise client.ConfigError("Offset must be int >= 0")
        self._check_seekable([partition])
        with NAMES.naming():
            self._consumer.seek(partition, offset)

    def seek_to_beginning(self, *partitions: client.TopicPartition) -> None:
        """Continue from the first offset of these partitions, or of all assigned ones."""
        self._check_seekable(partitions)
        with NAMES.naming():
            self._consumer.seek_to_beginning(partitions)

    def seek_to_end(self, *partitions: client.TopicPartition) -> None:
        """Continue from the end of these partitions, or of all assigned ones."""
        self._check_seekable(partitions)
        with NAMES.naming():
            self._consumer.seek_to_end(partitions)

    # -- commits

    def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit these offsets, or the positions, and wait until they are durable."""
        self._check_group()
        with NAMES.naming():
            self._consumer.commit(
                None if offsets is None else positions(offsets),
                timeout=None if timeout_ms is None else timeout_ms / 1000,
            )

    def commit_async(
        self, offsets: Offsets | None = None, callback: Callable[[Any, Any], object] | None = None
    ) -> Future[None]:
        """Commit without waiting. `callback(offsets, error)` runs in the client's thread; the error may be None."""
        self._check_group()
        with NAMES.naming():
            wanted = _structs(self._consumer.positions() if offsets is None else offsets)
            running = self._consumer.commit_nowait({at: position_of(to) for at, to in wanted.items()})
        result: Future[None] = Future()
        if callback is not None:
            result.add_callback(lambda _: callback(wanted, None))
            result.add_errback(lambda error: callback(wanted, error))

        def end(_: object) -> None:
            problem = running.exception()
            if problem is None:
                result.success(None)
            else:
                result.failure(NAMES.named(problem) if isinstance(problem, client.KohortError) else problem)

        running.add_done_callback(end)
        return result

    def committed(
        self, partition: client.TopicPartition, metadata: bool = False, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None:
        """Return the group's committed offset, with its metadata if `metadata`; None if there is none."""
        self._check_group()
        with NAMES.naming():
            found = self._consumer.within(timeout_ms, lambda consumer: consumer.committed([partition]))
        at = next(iter(found.values()))
        if at is None:
            return None
        epoch = -1 if at.leader_epoch is None else at.leader_epoch
        return OffsetAndMetadata(at.offset, at.metadata, epoch) if metadata else at.offset

    # -- topics and their offsets

    def topics(self) -> set[str]:
        """Return the names of all topics, except for internal ones."""
        with NAMES.naming():
            return set(self._consumer.topics()) - _INTERNAL

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Return the numbers of the topic's partitions; an empty set if it does not exist."""
        with NAMES.naming():
            # A request for the topic alone could create it.
            return set(range(self._consumer.partitions_for(topic))) if topic in self._consumer.topics() else set()

    def beginning_offsets(
        self, partitions: Iterable[client.TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        wanted = list(partitions)
        with NAMES.naming():
            found = self._consumer.within(timeout_ms, lambda consumer: consumer.beginning_offsets(wanted))
        return {TopicPartition(*partition): offset for partition, offset in found.items()}

    def end_offsets(
        self, partitions: Iterable[client.TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset of the next record to be appended to each partition."""
        wanted = list(partitions)
        with NAMES.naming():
            found = self._consumer.within(timeout_ms, lambda consumer: consumer.end_offsets(wanted))
        return {TopicPartition(*partition): offset for partition, offset in found.items()}

    def offsets_for_times(
        self, timestamps: Mapping[client.TopicPartition, float], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset of the first record at or after each timestamp; None if all are older."""
        times = {partition: int(timestamp) for partition, timestamp in timestamps.items()}
        if any(timestamp < 0 for timestamp in times.values()):
            raise client.ConfigError("The target time cannot be negative.")
        with NAMES.naming():
            found = self._consumer.within(timeout_ms, lambda consumer: consumer.offsets_for_times(times))
        return {
            TopicPartition(*partition): None
            if at is None
            else OffsetAndTimestamp(at.offset, at.timestamp, -1 if at.leader_epoch is None else at.leader_epoch)
            for partition, at in found.items()
        }

    def metrics(self, raw: bool = False) -> dict[Any, Any] | None:
        """Return the values of the metrics by group and name, or metrics by MetricName if `raw`; None if disabled."""
        if not self.config["metrics_enabled"]:
            return None
        with NAMES.naming():
            return metrics_of(self._consumer.metrics(), raw)

    # -- checks

    def _check_assigned(self, partition: client.TopicPartition) -> None:
        if not isinstance(partition, client.TopicPartition):
            raise TypeError("partition must be a TopicPartition namedtuple")
        if partition not in self._consumer.assignment:
            raise IllegalStateError("Partition is not assigned")

    def _check_seekable(self, partitions: Collection[client.TopicPartition]) -> None:
        if not all(isinstance(partition, client.TopicPartition) for partition in partitions):
            raise TypeError("partitions must be TopicPartition namedtuples")
        assigned = self._consumer.assignment
        if not assigned:
            raise client.ConfigError("No partitions are currently assigned")
        if left := set(partitions) - assigned:
            raise client.ConfigError(f"Unassigned partition: {left.pop()!r}")

    def _check_group(self) -> None:
        if self.config["group_id"] is None:
            raise IllegalStateError("Requires group_id")


def _structs(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        TopicPartition(*partition): OffsetAndMetadata(*at) if isinstance(at, tuple) else OffsetAndMetadata(at)
        for partition, at in offsets.items()
    }
