"""Read records of `__consumer_offsets` as changes of groups. Pure.

Records that this version cannot read are counted and left out: any program with the right to write
to the topic, and any newer broker, can add some.
"""

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from typing import Any, Protocol, cast

from kohort.group_events import MemberFacts
from kohort.model import NO_TOPIC_ID, UUID, Millis, TopicPartition
from kohort.watch.changes import (
    AssignmentWritten,
    Change,
    CommitDeleted,
    Committed,
    EpochRaised,
    GenerationMember,
    GenerationWritten,
    GroupDeleted,
    IdPartition,
    MemberDeleted,
    MemberWritten,
    TargetComputed,
    TopicNamed,
)
from kohort.wire.codec import DecodeError, Message
from kohort.wire.group_log import CommittedOffset, GroupRecord, decode_group_records
from kohort.wire.messages.consumer_protocol import Subscription, decode_assignment, decode_subscription
from kohort.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    TopicPartitions,
)

_CONSUMERS = ("consumer", "")
"""Protocol types whose members have subscriptions and assignments in the consumer protocol's format."""

_LATEST: Millis = 253_402_300_799_999
"""Latest possible time of a record: the end of the year 9999. Anyone who may write to the topic can set any time."""
_LONGEST_NAME = 1_000
"""Number of characters of a client ID, host or instance ID that are kept."""


class LogRecord(Protocol):
    """Record of `__consumer_offsets`, such as a `kohort.ConsumerRecord`."""

    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> Millis: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


@dataclass(slots=True)
class ReadCounts:
    """Numbers of records by what the reader could do with them."""

    records: int = 0
    """All records."""
    foreign: int = 0
    """Records of types that this version does not know."""
    unreadable: int = 0
    """Records that are damaged, or of a newer version of a known type."""
    unreadable_members: int = 0
    """Members whose subscription or assignment is damaged. Their group is followed without them."""
    first_unreadable: str | None = None
    """Place and problem of the first unreadable record, as a sentence."""


class LogReader:
    """Reader of the log. Records of one partition must be given in the order of their offsets."""

    def __init__(self) -> None:
        self.counts = ReadCounts()
        self.gaps: Set[tuple[int, int]] = frozenset()
        """Partition and offset of the commits before which others were left out."""
        self._record: LogRecord | None = None
        """Record that is being decoded."""
        self._read: list[Change] = []
        """Changes of the records that are being read."""
        self._named: dict[UUID, str] = {}
        """Topics that commits among them name."""

    def read(self, records: Iterable[LogRecord]) -> list[Change]:
        """Return the changes of these records, in order."""
        before = self.counts.records - self.counts.unreadable
        self._read, self._named = [], {}
        known = 0
        for record in decode_group_records(self._pairs(records), self._unreadable):
            self._changes(record)
            known += 1
        self.counts.foreign += self.counts.records - self.counts.unreadable - before - known
        return self._read

    def _pairs(self, records: Iterable[LogRecord]) -> Iterator[tuple[bytes | None, bytes | None]]:
        # The decoder asks for the next pair only after it has handed on the last one.
        for record in records:
            self._record = record
            self.counts.records += 1
            if 0 <= record.timestamp <= _LATEST:
                yield record.key, record.value
            else:
                self._unreadable(DecodeError(f"its time {record.timestamp} is impossible"))

    def _unreadable(self, problem: DecodeError) -> None:
        assert self._record is not None
        self.counts.unreadable += 1
        if self.counts.first_unreadable is None:
            where = f"partition {self._record.partition}, offset {self._record.offset}"
            self.counts.first_unreadable = f"The record at {where} of __consumer_offsets cannot be read: {problem}."

    def _changes(self, record: GroupRecord) -> None:
        source = self._record
        assert source is not None
        if type(record) is CommittedOffset:
            self._commit(record, source)
            return
        key, value = record.key, record.value
        if isinstance(key, LegacyOffsetCommitKey) and isinstance(value, LegacyOffsetCommitValue):
            self._commit(
                CommittedOffset(
                    key.group, key.topic, key.partition, value.offset, -1, value.metadata, value.commit_timestamp
                ),
                source,
            )
        elif isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            self._read.append(CommitDeleted(key.group, source.timestamp, TopicPartition(key.topic, key.partition)))
        elif (read := _READERS.get(type(key))) is not None:
            self._read += read(self, key, value, source.timestamp)

    def _generation(self, key: GroupMetadataKey, value: GroupMetadataValue | None, at: Millis) -> Iterator[Change]:
        if value is None:
            yield GroupDeleted(key.group, at, "classic")
            return
        decode = self._classic_member if value.protocol_type in _CONSUMERS else _member_without_protocol
        yield GenerationWritten(
            key.group,
            at,
            value.generation,
            value.protocol_type,
            value.protocol or None,
            value.leader or None,
            tuple(decode(member) for member in value.members),
        )

    def _classic_member(self, member: MemberMetadata) -> GenerationMember:
        try:
            subscription = decode_subscription(member.subscription) if member.subscription else Subscription()
            assigned = frozenset(decode_assignment(member.assignment).partitions)
            kept = frozenset(subscription.owned_partitions)
            return GenerationMember(_facts(member), frozenset(subscription.topics), assigned, kept)
        except DecodeError:
            self.counts.unreadable_members += 1
            return _member_without_protocol(member)

    def _epoch(
        self, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None, at: Millis
    ) -> Iterator[Change]:
        if value is None:
            yield GroupDeleted(key.group_id, at, "consumer")
        else:
            yield EpochRaised(key.group_id, at, value.epoch, value.metadata_hash)

    def _topics(
        self, _key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None, _at: Millis
    ) -> Iterator[Change]:
        for topic in () if value is None else value.topics:
            yield TopicNamed(topic.topic_id, topic.topic_name)

    def _member(
        self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None, at: Millis
    ) -> Iterator[Change]:
        if value is None:
            yield MemberDeleted(key.group_id, at, key.member_id)
            return
        facts = _facts_of(key.member_id, value)
        topics = frozenset(value.subscribed_topic_names)
        yield MemberWritten(
            key.group_id, at, facts, topics, value.subscribed_topic_regex or None, value.server_assignor
        )

    def _target(
        self,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
        at: Millis,
    ) -> Iterator[Change]:
        if value is not None:
            yield TargetComputed(key.group_id, at, value.assignment_epoch)

    def _current(
        self,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
        at: Millis,
    ) -> Iterator[Change]:
        if value is None:
            return  # the deletion of the member's metadata, which always follows, says the same
        yield AssignmentWritten(
            key.group_id,
            at,
            key.member_id,
            value.member_epoch,
            value.previous_member_epoch,
            value.state == 0,
            _by_id(value.assigned_partitions),
            _by_id(value.partitions_pending_revocation),
        )

    def _commit(self, committed: CommittedOffset, source: LogRecord) -> None:
        partition = TopicPartition(committed.topic, committed.partition)
        topic_id = committed.topic_id
        if topic_id is not NO_TOPIC_ID and topic_id != NO_TOPIC_ID and self._named.get(topic_id) != committed.topic:
            self._named[topic_id] = committed.topic
            self._read.append(TopicNamed(topic_id, committed.topic))
        after_gap = bool(self.gaps) and (source.partition, source.offset) in self.gaps
        time = committed.commit_timestamp if 0 <= committed.commit_timestamp <= _LATEST else source.timestamp
        self._read.append(Committed(committed.group, time, partition, committed.offset, after_gap))


def assigned_topics(changes: Iterable[Change]) -> dict[UUID, str | None]:
    """Return the topics of assignments, with the names that commits tell, also later ones; None for the others."""
    used: dict[UUID, str | None] = {}
    told: dict[UUID, str] = {}
    for change in changes:
        if isinstance(change, Committed):
            continue  # nearly all are
        if isinstance(change, TopicNamed):
            told[change.topic_id] = change.name
        elif isinstance(change, AssignmentWritten):
            used |= dict.fromkeys(topic_id for topic_id, _ in change.assigned | change.revoking)
    return {topic_id: told.get(topic_id) for topic_id in used}


def _facts(member: MemberMetadata) -> MemberFacts:
    instance_id = member.group_instance_id
    return MemberFacts(
        member.member_id, _short(member.client_id), _short(member.client_host), instance_id and _short(instance_id)
    )


def _facts_of(member_id: str, value: ConsumerGroupMemberMetadataValue) -> MemberFacts:
    instance_id = value.instance_id
    return MemberFacts(
        member_id, _short(value.client_id), _short(value.client_host), instance_id and _short(instance_id)
    )


def _short(text: str) -> str:
    """Shorten what a client calls itself. A megabyte of it would be kept with each rebalance."""
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"


def _member_without_protocol(member: MemberMetadata) -> GenerationMember:
    return GenerationMember(_facts(member), frozenset(), frozenset())


def _by_id(topics: Iterable[TopicPartitions]) -> frozenset[IdPartition]:
    return frozenset((topic.topic_id, partition) for topic in topics for partition in topic.partitions)


_READERS = cast(
    "dict[type[Message], Callable[[LogReader, Any, Any, Millis], Iterator[Change]]]",
    {
        GroupMetadataKey: LogReader._generation,
        ConsumerGroupMetadataKey: LogReader._epoch,
        ConsumerGroupPartitionMetadataKey: LogReader._topics,
        ConsumerGroupMemberMetadataKey: LogReader._member,
        ConsumerGroupTargetAssignmentMetadataKey: LogReader._target,
        ConsumerGroupCurrentMemberAssignmentKey: LogReader._current,
    },
)
