"""A second coordinator that sees only what is durable: what a load has to give, and what the live one must agree with.

It replays every record of `__consumer_offsets` as it reaches the disk, from its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kohort.coordinator import GroupConfig, GroupShard, Record
from kohort.member import OffsetAndMetadata
from kohort.model import NO_TOPIC_ID, UUID, TopicPartition
from kohort.sim.durable_state import group_of
from kohort.sim.group_checks import check_generation
from kohort.sim.ledger import Ledger
from kohort.sim.violation import Violation
from kohort.wire.group_bytes import decode_key, decode_value
from kohort.wire.group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kohort.wire.records import batches, decode_records


class Shadow:
    """One partition of `__consumer_offsets` as the disk has it."""

    def __init__(self, ledger: Ledger) -> None:
        self.shard = _empty()
        self.generations: dict[str, int] = {}
        self._ledger = ledger
        self._newest: dict[bytes, bytes | None] = {}

    def written(self, pairs: Iterable[tuple[bytes, bytes | None]]) -> list[Record]:
        """These keys and values are durable; the records that they are."""
        records = []
        for key, value in pairs:
            self._newest.pop(key, None)
            self._newest[key] = value
            record = _decoded(key, value)
            self._take(record)
            records.append(record)
        return records

    def compacted(self) -> GroupShard:
        """A shard loaded from the newest record of each key alone."""
        shard = _empty()
        for key, value in self._newest.items():
            shard.replay(_decoded(key, value))
        return shard

    def _take(self, record: Record) -> None:
        match record.key, record.value:
            case GroupMetadataKey(group=group_id), GroupMetadataValue() as value:
                last = self.generations.get(group_id, -1)
                if value.generation < last:
                    raise Violation("S4", f"{group_id} fell from generation {last} to {value.generation}")
                self.generations[group_id] = value.generation
                check_generation(group_id, value, is_new=value.generation > last)
            case ConsumerGroupMetadataKey(group_id=group_id), ConsumerGroupMetadataValue() as value:
                last = self.generations.get(group_id, -1)
                if value.epoch < last:
                    raise Violation("S4", f"{group_id} fell from epoch {last} to {value.epoch}")
                self.generations[group_id] = value.epoch
            case ((GroupMetadataKey(group=group_id) | ConsumerGroupMetadataKey(group_id=group_id)), None):
                self.generations.pop(group_id, None)
            case OffsetCommitKey() as key, value:
                assert value is None or isinstance(value, OffsetCommitValue)
                committed, topic_id = None, self._topic_id(key) if value is None else value.topic_id
                if value is not None:
                    epoch = None if value.leader_epoch < 0 else value.leader_epoch
                    committed = OffsetAndMetadata(value.offset, value.metadata, epoch)
                self._ledger.durable(key.group, topic_id, TopicPartition(key.topic, key.partition), committed)
        self.shard.replay(record)

    def _topic_id(self, key: OffsetCommitKey) -> UUID:
        """Of which topic the offset is that is stored under this key."""
        group = group_of(self.shard, key.group)
        record = None if group is None else group.offsets.get(key.topic, {}).get(key.partition)
        return record.value.topic_id if record and isinstance(record.value, OffsetCommitValue) else NO_TOPIC_ID


def pairs_of(data: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """The keys and values in these batches."""
    buffer = bytearray(data)
    for position, _ in batches(buffer):
        for record in decode_records(buffer, position):
            yield bytes(record.key or b""), None if record.value is None else bytes(record.value)


def _empty() -> GroupShard:
    def none() -> str:
        raise AssertionError("replaying makes no ids")

    return GroupShard(GroupConfig(), none)


def _decoded(key_bytes: bytes, value_bytes: bytes | None) -> Record:
    key = decode_key(key_bytes)
    assert key is not None
    return Record(key, None if value_bytes is None else decode_value(key, value_bytes))
