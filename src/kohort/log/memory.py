"""Store of all topics in memory, with the same logs as in files.

For tests, and for brokers whose data may be lost when the process ends.
"""

import base64
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from kohort.log.api import Pending, Topic, TornTail
from kohort.log.config import LogConfig
from kohort.log.kept_configs import AllConfigs, KeptConfigs, with_changes
from kohort.log.partition import SegmentedLog
from kohort.log.producers import ProducerStates
from kohort.log.queue import AppendQueue, PendingAppends
from kohort.log.segment import Segment
from kohort.model import UUID, TopicPartition
from kohort.wire.batches import Buffer

_SEGMENT_BYTES = 16 << 20
"""Retention frees whole segments, and a large bytearray is copied when it grows."""


class MemoryMedium:
    """One segment as a bytearray."""

    __slots__ = ("_data", "_is_shared")

    def __init__(self, data: bytearray | None = None, *, is_shared: bool = False) -> None:
        self._data = bytearray() if data is None else data
        self._is_shared = is_shared
        """Whether a snapshot has these bytes, too; then they may be appended to, but not truncated."""

    def frozen(self) -> bytearray:
        """Return the bytes for a snapshot, which does not copy them."""
        self._is_shared = True
        return self._data

    @classmethod
    def of(cls, data: bytearray, size: int) -> "MemoryMedium":
        """Return a medium with the first `size` bytes of a snapshot, which are copied only if more bytes follow."""
        return cls(data, is_shared=True) if len(data) == size else cls(data[:size])

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
        if self._is_shared and size < len(self._data):
            self._data, self._is_shared = self._data[:size], False
        else:
            del self._data[size:]

    def remove(self) -> None:
        self._data, self._is_shared = bytearray(), False


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


class LogImage:
    """One log in a snapshot: copies of its segments' descriptions, and the same bytes."""

    __slots__ = ("_data", "_segments", "_stamp", "compacted_to", "log", "producers", "start_offset")

    def __init__(self, log: SegmentedLog) -> None:
        self.log = log
        self.start_offset = log.start_offset
        self.compacted_to = log.compacted_to
        self.producers = log.producers.snapshot()
        self._stamp = _stamp(log)
        self._segments = [segment.copied(segment.medium) for segment in log.segments]
        self._data = [_memory(segment).frozen() for segment in log.segments]

    def is_of(self, log: SegmentedLog) -> bool:
        """Return whether nothing has changed since: the log need not be restored."""
        return log is self.log and self._stamp == _stamp(log)

    def restored_as(self, log: SegmentedLog) -> None:
        """Record the log that has the contents of this image now."""
        self.log, self._stamp = log, _stamp(log)

    def producers_for(self, old: SegmentedLog | None) -> ProducerStates:
        """Return the producers of the log that replaces `old`: those that have written nothing since.

        The others go on with sequence numbers that do not follow those of the snapshot. The log does not know them, so
        it accepts any (KIP-360). It knows those with an open transaction, whose records stay invisible.
        """
        known = {} if old is None else old.producers.snapshot()
        return ProducerStates(
            {
                number: state
                for number, state in self.producers.items()
                if known.get(number) == state or state.transaction_start is not None
            }
        )

    def segments(self) -> list[Segment]:
        """Return segments that may grow, with the bytes of the snapshot."""
        return [
            segment.copied(MemoryMedium.of(data, segment.size))
            for segment, data in zip(self._segments, self._data, strict=True)
        ]


def _stamp(log: SegmentedLog) -> object:
    """Return a value that differs after every change of the log's records."""
    segments = [id(segment) for segment in log.segments]
    return log.start_offset, log.end_offset, log.compacted_to, segments, log.producers.snapshot()


def _memory(segment: Segment) -> MemoryMedium:
    assert isinstance(segment.medium, MemoryMedium)
    return segment.medium


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """All topics of a memory store with their records, producers and configs, and the other configs, at one time."""

    topics: Mapping[str, Topic]
    configs: AllConfigs
    logs: Mapping[tuple[UUID, int], LogImage]


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

    def update_configs(self, kind: str, name: str, update: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        before = self.configs(kind).get(name, {})
        after = update(before)
        if after != before:
            self.keep_configs(kind, name, after)

    def change_configs(self, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
        self.update_configs(kind, name, lambda before: with_changes(before, changes))

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

    # Snapshots

    @property
    def all_configs(self) -> AllConfigs:
        """Configs of all non-topic resources."""
        return self._configs.all

    def snapshot(self) -> MemorySnapshot:
        """Return the store's contents. No appends may be queued. No bytes are copied."""
        assert not self._queue.queued_bytes
        logs = {key: LogImage(log) for key, log in self._logs.items()}
        return MemorySnapshot(dict(self._topics), self._configs.all, logs)

    def changed_since(self, snapshot: MemorySnapshot, keep: Collection[str] = ()) -> set[tuple[UUID, int]]:
        """Return the partitions, by topic ID, that `restore` would change, except those of the topics in `keep`."""
        wanted = {topic.topic_id: topic.partitions for topic in snapshot.topics.values()}
        kept = {self._topics[name].topic_id for name in keep if name in self._topics}
        kept |= {topic.topic_id for topic in snapshot.topics.values() if topic.name in keep}
        changed = snapshot.logs.keys() - self._logs.keys()
        for key, log in self._logs.items():
            image = snapshot.logs.get(key)
            is_same = not log.end_offset if image is None else image.is_of(log)
            if not is_same or key[1] >= wanted.get(key[0], 0):
                changed.add(key)
        return {key for key in changed if key[0] not in kept}

    def restore(self, snapshot: MemorySnapshot, keep: Collection[str] = ()) -> None:
        """Return to the contents of a snapshot of this store, except for the topics in `keep`.

        No appends may be queued. Logs that have changed since are replaced by other objects. Producers go on: of those
        that have written since, no state is kept.
        """
        assert not self._queue.queued_bytes
        changed = self.changed_since(snapshot, keep)
        kept = {name: topic for name, topic in self._topics.items() if name in keep}
        self._topics = {name: topic for name, topic in snapshot.topics.items() if name not in keep} | kept
        self._names = {topic.topic_id: topic.name for topic in self._topics.values()}
        self._configs.replace(snapshot.configs)
        for key in changed:
            old, image = self._logs.pop(key, None), snapshot.logs.get(key)
            if old is not None:
                old.deleted = True
            if image is not None:
                log = self._logs[key] = self._open(self._topics[self._names[key[0]]], key[1], image, old)
                image.restored_as(log)
        for (topic_id, _), log in self._logs.items():
            log.config = self._config(self._topics[self._names[topic_id]])

    def _open(
        self, topic: Topic, partition: int, image: LogImage | None = None, old: SegmentedLog | None = None
    ) -> SegmentedLog:
        if not 0 <= partition < topic.partitions:
            raise KeyError(partition)
        return SegmentedLog(
            TopicPartition(topic.name, partition),
            self._config(topic),
            self.leader_epoch,
            lambda _: MemoryMedium(),
            self._queue.note,
            MemoryCompaction,
            segments=() if image is None else image.segments(),
            start_offset=0 if image is None else image.start_offset,
            compacted_to=0 if image is None else image.compacted_to,
            producers=None if image is None else image.producers_for(old),
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
