"""The group coordinator's shell: the shard of each group, and the operations that span several shards."""

import struct
from collections.abc import Collection, Iterable, Iterator, Set
from typing import Protocol

from kohort.broker.groups.shard import Dependencies as ShardParts
from kohort.broker.groups.shard import Shard
from kohort.broker.logs import Leadership, Topics
from kohort.coordinator import MetadataImage
from kohort.errors import ErrorCode
from kohort.log.cluster import OFFSETS_TOPIC, Node
from kohort.model import Millis, TopicPartition


class Dependencies(ShardParts, Protocol):
    """The parts of the broker that this module uses."""

    leadership: Leadership
    topics: Topics


_CACHED_GROUPS = 100_000


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode`: over UTF-16 code units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for (unit,) in struct.iter_unpack(">H", units):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


def group_partition(group_id: str, partitions: int) -> int:
    """Return the partition of `__consumer_offsets` that holds the group, computed as Kafka's brokers and clients do."""
    code = java_string_hash(group_id)
    return (0 if code == -(1 << 31) else abs(code)) % partitions


class GroupCoordinator:
    """All shards of this broker. Iteration yields those that it leads."""

    shard_type: type[Shard] = Shard

    def __init__(self, broker: Dependencies) -> None:
        topic = broker.topics.named(OFFSETS_TOPIC)
        assert topic is not None
        self._topic = topic
        self._broker = broker
        self._shards = [self.shard_type(broker, partition) for partition in range(topic.partitions)]
        self._of_group: dict[str, Shard] = {}

    def __iter__(self) -> Iterator[Shard]:
        return (shard for shard in self._shards if shard.leads)

    def shard(self, group_id: str) -> Shard:
        """Return the shard that coordinates the group."""
        shard = self._of_group.get(group_id)
        if shard is None:
            if len(self._of_group) >= _CACHED_GROUPS:
                self._of_group.clear()
            shard = self._of_group[group_id] = self._shards[group_partition(group_id, len(self._shards))]
        return shard

    def of_partition(self, partition: int) -> Shard:
        """Return the shard of a partition of `__consumer_offsets`, whether this broker leads it or not."""
        return self._shards[partition]

    def offsets_partition(self, group_id: str) -> TopicPartition:
        """Return the partition of `__consumer_offsets` that holds the group."""
        return TopicPartition(OFFSETS_TOPIC, group_partition(group_id, len(self._shards)))

    def coordinator(self, group_id: str) -> Node | None:
        """Return the broker that leads the group's partition, or None if there is none at the moment."""
        leadership = self._broker.leadership
        leader = leadership.leader(self._topic, group_partition(group_id, len(self._shards)))
        return leadership.node(leader.node_id)

    def topics_deleted(self, names: Collection[str]) -> None:
        """Delete the offsets that any group committed for these topics, as Kafka does."""
        for shard in self:
            shard.topics_deleted(names)

    def topics_changed(self, image: MetadataImage) -> None:
        """Replace the topic metadata. Consumer groups whose subscriptions now match other topics are reassigned."""
        for shard in self:
            shard.topics_changed(image)

    def skip_time(self, by: Millis, connected: Set[tuple[str, str]], dead: Set[tuple[str, str]]) -> None:
        """Prepare for a clock that is about to jump by `by`, so that no member expires by it that lives.

        The arguments are those of `GroupShard.skip_time`. Move the clock at once, and then call `Timers.clock_changed`.
        """
        for shard in self:
            shard.skip_time(by, connected, dead)

    def clock_changed(self) -> None:
        """Follow another rate of the clock."""
        for shard in self._shards:
            shard.clock_changed()

    def acls_changed(self) -> None:
        """Match the expressions of members again, which may now describe other topics."""
        for shard in self:
            shard.acls_changed()

    def lead(self, partitions: Iterable[int] | None = None) -> None:
        """Begin to load these shards, by default all; while they load, requests get COORDINATOR_LOAD_IN_PROGRESS."""
        for partition in range(len(self._shards)) if partitions is None else partitions:
            log = self._broker.topics.log(self._topic, partition)
            if log is not None:
                self._shards[partition].lead(log)

    def give_up(self, partitions: Iterable[int]) -> None:
        """Resign from these partitions, which other brokers now coordinate; waiting requests get NOT_COORDINATOR."""
        for partition in partitions:
            self._shards[partition].resign()

    def resign(self) -> None:
        """Resign from all shards because the broker stops; waiting requests fail with NOT_COORDINATOR."""
        for shard in self:
            shard.resign(ErrorCode.COORDINATOR_NOT_AVAILABLE)
