"""Coordinator that replays durable records only: the expected result of a load, compared with the live coordinator.

It replays every record of `__consumer_offsets` from its bytes when it reaches the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kohort.coordinator import GroupConfig, GroupRecord, GroupShard
from kohort.member import OffsetAndMetadata
from kohort.model import NO_TOPIC_ID, UUID, TopicPartition
from kohort.sim.checks.classic_groups import check_claims, check_generation, check_takes_little
from kohort.sim.checks.durable_state import group_of
from kohort.sim.checks.group_progress import GroupProgress, Place
from kohort.sim.violation import Violation
from kohort.wire.batches import batches, decode_records, read_marker
from kohort.wire.group_log import decode_key, decode_value, group_record
from kohort.wire.messages.group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)


class DurableGroups:
    """One partition of `__consumer_offsets` as stored on the disk."""

    def __init__(self, progress: GroupProgress, most: Callable[[str], int] | None = None) -> None:
        """Create an empty state; `most` is that of `check_generation`."""
        self.shard = _empty()
        self.generations: dict[str, int] = {}
        self._converted: dict[str, int] = {}
        """Epoch of each consumer group that ended, until the next generation of a classic group.

        If the group became a classic one, this is the classic group's generation, whose assignment the
        consumer group's assignor made. The members joined earlier, so their claims are old.
        """
        self._progress = progress
        self._most = most
        self._before_damage: dict[str, int] = {}
        """Generations that were in the log before it was damaged, while the rest is replayed: none of them is new."""
        self._newest: dict[bytes, bytes | None] = {}
        self._pending: dict[int, list[tuple[bytes, bytes | None]]] = {}
        """Keys and values of open transactions by producer id."""

    def damaged(self, remains: Iterable[tuple[bytes, bytes | None]]) -> DurableGroups:
        """Return the state of the same partition after records were lost, from the keys and values that remain."""
        rest = DurableGroups(self._progress, self._most)
        rest._converted = dict(self._converted)  # compaction removes the tombstones
        # A generation may have been stored again, for a static member that returned with another subscription.
        rest._before_damage = self.generations
        rest.written(remains)
        rest._before_damage = {}
        return rest

    def written(self, pairs: Iterable[tuple[bytes, bytes | None]]) -> list[GroupRecord]:
        """Replay durable keys and values; return their records."""
        records = []
        for key, value in pairs:
            self._newest.pop(key, None)
            self._newest[key] = value
            record = _decoded(key, value)
            self._take(record)
            records.append(record)
        return records

    def written_batches(self, data: bytes) -> list[GroupRecord]:
        """Replay durable batches; return the records that are not part of a transaction."""
        records = []
        buffer = bytearray(data)
        for position, header in batches(buffer):
            batch = bytes(buffer[position : position + header.size])
            if header.is_control:
                marker = read_marker(batch)
                if marker is not None:
                    self._end(header.producer_id, committed=marker.committed)
            elif header.is_transactional:
                pairs = list(pairs_of(batch))
                self._pending.setdefault(header.producer_id, []).extend(pairs)
                self.shard.replay_pending([_decoded(*pair) for pair in pairs], header.producer_id)
            else:
                records += self.written(pairs_of(batch))
        return records

    def _end(self, producer_id: int, *, committed: bool) -> None:
        for key, value in self._pending.pop(producer_id, ()):
            if committed:
                self._newest.pop(key, None)
                self._newest[key] = value
        self.shard.replay_end(producer_id, committed=committed)

    def lost(self, pairs: Iterable[tuple[bytes, bytes | None]]) -> list[GroupRecord]:
        """Return the newest record of each key that is not among these: the disk has lost it.

        A deletion that compaction has removed with all that it deleted is not lost.
        """
        found = list(pairs)
        written, newest = set(found), dict(found)
        return [
            _decoded(key, value)
            for key, value in self._newest.items()
            if (key, value) not in written and newest.get(key) != value
        ]

    def place(self, key: OffsetCommitKey) -> Place:
        """Return the group and partition of a stored offset, with the id of its topic."""
        return key.group, self._topic_id(key), TopicPartition(key.topic, key.partition)

    def compacted(self) -> GroupShard:
        """Return a shard loaded from the newest record of each key only."""
        shard = _empty()
        for key, value in self._newest.items():
            shard.replay(_decoded(key, value))
        return shard

    def _take(self, record: GroupRecord) -> None:
        match record.key, record.value:
            case GroupMetadataKey(group=group_id), GroupMetadataValue() as value:
                last = self.generations.get(group_id, -1)
                if value.generation < last:
                    raise Violation("S4", f"the generation of {group_id} decreased from {last} to {value.generation}")
                self.generations[group_id] = value.generation
                is_new = value.generation > max(last, self._before_damage.get(group_id, -1))
                check_generation(group_id, value, is_new=is_new, most=self._most)
                if self._converted.get(group_id) != value.generation:
                    self._converted.pop(group_id, None)
                    check_claims(group_id, value)
                    if is_new and self._most is not None:
                        check_takes_little(group_id, value)
            case ConsumerGroupMetadataKey(group_id=group_id), ConsumerGroupMetadataValue() as value:
                last = self.generations.get(group_id, -1)
                if value.epoch < last:
                    raise Violation("S4", f"the epoch of {group_id} decreased from {last} to {value.epoch}")
                self.generations[group_id] = value.epoch
            case ConsumerGroupMetadataKey(group_id=group_id), None:
                if group_id in self.generations:
                    self._converted[group_id] = self.generations.pop(group_id)
            case GroupMetadataKey(group=group_id), None:
                self.generations.pop(group_id, None)
            case OffsetCommitKey() as key, value:
                assert value is None or isinstance(value, OffsetCommitValue)
                committed, topic_id = None, self._topic_id(key) if value is None else value.topic_id
                if value is not None:
                    epoch = None if value.leader_epoch < 0 else value.leader_epoch
                    committed = OffsetAndMetadata(value.offset, value.metadata, epoch)
                self._progress.durable(key.group, topic_id, TopicPartition(key.topic, key.partition), committed)
        self.shard.replay(record)

    def _topic_id(self, key: OffsetCommitKey) -> UUID:
        """Return the topic id of the offset that is stored under this key."""
        group = group_of(self.shard, key.group)
        record = None if group is None else group.offsets.get(key.topic, {}).get(key.partition)
        return record.value.topic_id if record and isinstance(record.value, OffsetCommitValue) else NO_TOPIC_ID


def pairs_of(data: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the keys and values in these batches."""
    buffer = bytearray(data)
    for position, _ in batches(buffer):
        for record in decode_records(buffer, position):
            yield bytes(record.key or b""), None if record.value is None else bytes(record.value)


def _empty() -> GroupShard:
    def none() -> str:
        raise AssertionError("replaying makes no ids")

    return GroupShard(GroupConfig(), none)


def _decoded(key_bytes: bytes, value_bytes: bytes | None) -> GroupRecord:
    key = decode_key(key_bytes)
    assert key is not None
    return group_record(key, None if value_bytes is None else decode_value(key, value_bytes))
