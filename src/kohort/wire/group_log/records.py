"""Records of `__consumer_offsets`, decoded."""

from collections.abc import Iterable
from dataclasses import dataclass

from kohort.model import NO_TOPIC_ID, UUID, Millis
from kohort.wire.codec import Message
from kohort.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue


@dataclass(slots=True)
class Record:
    """One record: messages of `kohort.wire.messages.group_records`; a value of None is a tombstone.

    The record of a committed offset is a `CommittedOffset`; `group_record` makes the one or the other.
    """

    key: Message
    value: Message | None


@dataclass(slots=True)
class CommittedOffset:
    """The record of a committed offset, in one object instead of three: a shard can have millions of them.

    Its fields are those of the key and of the value. Immutable by convention: freezing it would double its cost.
    """

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = -1
    topic_id: UUID = NO_TOPIC_ID

    @property
    def key(self) -> OffsetCommitKey:
        """The record's key, as a new message."""
        return OffsetCommitKey(group=self.group, topic=self.topic, partition=self.partition)

    @property
    def value(self) -> OffsetCommitValue:
        """The record's value, as a new message."""
        return OffsetCommitValue(
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata,
            commit_timestamp=self.commit_timestamp,
            expire_timestamp=self.expire_timestamp,
            topic_id=self.topic_id,
        )


def committed_offsets(
    group: str,
    topic: str,
    topic_id: UUID,
    partitions: Iterable[int],
    offsets: Iterable[int],
    epochs: Iterable[int],
    time: Millis,
) -> list[CommittedOffset]:
    """Return the records of commits to one topic, without metadata and expiry time."""
    new = object.__new__
    records = []
    for partition, offset, epoch in zip(partitions, offsets, epochs, strict=True):
        # Filled without __init__, which takes a third more time.
        one = new(CommittedOffset)
        one.group = group
        one.topic = topic
        one.partition = partition
        one.offset = offset
        one.leader_epoch = epoch
        one.metadata = ""
        one.commit_timestamp = time
        one.expire_timestamp = -1
        one.topic_id = topic_id
        records.append(one)
    return records


GroupRecord = Record | CommittedOffset


def group_record(key: Message, value: Message | None) -> GroupRecord:
    """Return the record with this key and value."""
    if isinstance(key, OffsetCommitKey) and value is not None:
        assert isinstance(value, OffsetCommitValue)
        return CommittedOffset(
            key.group,
            key.topic,
            key.partition,
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
    return Record(key, value)
