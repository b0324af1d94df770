"""Store of all topics in memory, with the same logs as in files.

For tests, and for brokers whose data may be lost when the process ends.
"""

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kohort.log.api import Pending, Topic, TornTail
from kohort.log.config import LogConfig
from kohort.log.kept_configs import KeptConfigs, with_changes
from kohort.log.partition import SegmentedLog
from kohort.log.queue import AppendQueue, PendingAppends
from kohort.log.segment import Segment
from kohort.model import UUID, TopicPartition
from kohort.wire.batches import Buffer

_SEGMENT_BYTES = 16 << 20
"""Retention frees whole segments, and a large bytearray is copied when it grows."""


class MemoryMedium:
    """One segment as a bytearray."""

    __slots__ = ("_data",)

    def __init__(self, data: bytearray | None = None) -> None:
        self._data = bytearray() if data is None else data

    def read(self, position: int, size: int) -> Buffer:
        return self._data[position : position + size]

    def slice(self, position: int, size: int) -> Buffer:
        return self.read(position, size)

    def settle(self, parts: Sequence[Buffer]) -> None:
        for part in parts:
            self._data += part

    def create(self) -> None:
        """Do nothing: the bytearray already exists."""

    def truncate(self, size: int) -> None:
        del self._data[size:]

    def remove(self) -> None:
        self._data = bytearray()


class MemoryCompaction:
    """Storage access of a compaction in memory."""

    def __init__(self) -> None:
        self._written = bytearray()

    def read(self, segment: Segment, position: int, size: int) -> Buffer:
        return segment.medium.read(position, min(size, segment.size - position))

    def begin(self, base_offset: int) -> Segment:
        self._written = bytearray()
        return Segment(base_offset, MemoryMedium(self._written))

    def write(self, parts: Sequence[Buffer]) -> None:
        for part in parts:
            self._written += part

    def producers_at_end(self, segment: Segment) -> None:
        """Return None: producer state is stored for a restart only."""

    def commit(self, end_offset: int) -> None:
        """Do nothing: there is no crash to survive."""

    def put_in_place(self, old: Sequence[Segment], new: Segment) -> None:
        """Do nothing: the log replaces its segments."""

    def finish(self) -> None:
        """Do nothing: no state is left behind."""

    def keep_progress(self, offset: int) -> None:
        """Do nothing: the log keeps the progress."""

    def discard(self) -> None:
        self._written = bytearray()

    def close(self) -> None:
        self._written = bytearray()


class MemoryStore:
    """A `LogStore` without a disk: `sync` does nothing, everything else is as with files."""

    def __init__(self, *, cluster_id: str | None = None, defaults: Mapping[str, str] | None = None) -> None:
        self.cluster_id = cluster_id or fresh_cluster_id()
        self.leader_epoch = 0
        """Leader epoch of every partition that is opened from now on."""
        self.recovered: list[TornTail] = []
        self._defaults = dict(defaults or {})
        self._topics: dict[str, Topic] = {}
        self._names: dict[UUID, str] = {}
        self._logs: dict[tuple[UUID, int], SegmentedLog] = {}
        self._configs = KeptConfigs({}, lambda configs: None)
        self._queue = AppendQueue()

    @property
    def queued_bytes(self) -> int:
        return self._queue.queued_bytes

    def topics(self) -> Mapping[str, Topic]:
        return self._topics

    def create_topic(self, topic: Topic) -> None:
        assert topic.name not in self._topics and topic.topic_id not in self._names
        self._config(topic)
        self._topics[topic.name] = topic
        self._names[topic.topic_id] = topic.name

    def alter_topic(self, topic: Topic) -> None:
        assert topic.partitions >= self._topics[topic.name].partitions
        config = self._config(topic)
        self._topics[topic.name] = topic
        for (topic_id, _), log in self._logs.items():
            if topic_id == topic.topic_id:
                log.config = config

    def change_defaults(self, defaults: Mapping[str, str]) -> None:
        self._defaults = dict(defaults)
        for (topic_id, _), log in self._logs.items():
            log.config = self._config(self._topics[self._names[topic_id]])

    def delete_topic(self, topic_id: UUID) -> None:
        del self._topics[self._names.pop(topic_id)]
        for key in [key for key in self._logs if key[0] == topic_id]:
            log = self._logs.pop(key)
            log.deleted = True
            self._queue.forget(log)

    def configs(self, kind: str) -> Mapping[str, Mapping[str, str]]:
        return self._configs.of_kind(kind)

    def keep_configs(self, kind: str, name: str, configs: Mapping[str, str]) -> None:
        self._configs.keep(kind, name, configs)

    def change_configs(self, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
        self.keep_configs(kind, name, with_changes(self.configs(kind).get(name, {}), changes))

    def partition(self, topic_id: UUID, partition: int) -> SegmentedLog:
        log = self._logs.get((topic_id, partition))
        if log is None:
            log = self._open(self._topics[self._names[topic_id]], partition)
            self._logs[topic_id, partition] = log
        return log

    def take(self) -> PendingAppends | None:
        return self._queue.take() if self._queue.waits else None

    def sync(self, pending: Pending) -> None:
        """Do nothing: memory is not durable."""

    def settle(self, pending: Pending) -> Sequence[SegmentedLog]:
        assert isinstance(pending, PendingAppends)
        for log, queued in pending.logs:
            log.settle(queued)
        self._queue.finish(pending)
        return [log for log, _ in pending.logs]

    def fail(self, pending: Pending, error: OSError) -> None:
        assert isinstance(pending, PendingAppends)
        self._queue.drop(pending)

    def close(self) -> None:
        """Settle the pending appends."""
        if pending := self.take():
            self.settle(pending)

    def _open(self, topic: Topic, partition: int) -> SegmentedLog:
        if not 0 <= partition < topic.partitions:
            raise KeyError(partition)
        name = TopicPartition(topic.name, partition)
        config = self._config(topic)
        return SegmentedLog(
            name, config, self.leader_epoch, lambda _: MemoryMedium(), self._queue.note, MemoryCompaction
        )

    def _config(self, topic: Topic) -> LogConfig:
        config = LogConfig.of({**self._defaults, **topic.configs})
        return replace(config, segment_bytes=min(config.segment_bytes, _SEGMENT_BYTES))


def fresh_cluster_id() -> str:
    """Return 22 characters of URL-safe base64, like Kafka's.

    The first one is not a dash, because a command line would parse the ID as an option.
    """
    while True:
        text = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text
