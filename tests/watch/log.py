"""A log of groups for tests: records as a broker writes them, with times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.model import UUID, Millis, TopicPartition
from kohort.recorder import RebalanceRecord
from kohort.watch import EndOffsets, LogReader, WatchedGroup, Watcher
from kohort.wire.codec import Message
from kohort.wire.group_log import encode_key, encode_value
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    TopicPartitions,
)

ORDERS = UUID(int=7)


class Written(NamedTuple):
    """A record of the log."""

    partition: int
    offset: int
    timestamp: Millis
    key: bytes | None
    value: bytes | None


def orders(*partitions: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", partition) for partition in partitions)


@dataclass
class Log:
    """What is written is read at once. Each method returns the records of rebalances that are complete."""

    reader: LogReader = field(default_factory=LogReader)
    watcher: Watcher = field(default_factory=Watcher)
    offset: int = 0
    ends: dict[TopicPartition, EndOffsets] = field(default_factory=dict)

    @property
    def group(self) -> WatchedGroup:
        return self.watcher.groups["g"]

    def raw(self, at: Millis, key: bytes | None, value: bytes | None) -> list[RebalanceRecord]:
        record = Written(3, self.offset, at, key, value)
        self.offset += 1
        return self.watcher.apply(self.reader.read([record]), self.ends)

    def write(self, at: Millis, key: Message, value: Message | None) -> list[RebalanceRecord]:
        return self.raw(at, encode_key(key), None if value is None else encode_value(value))

    def commit(self, at: Millis, partition: int, offset: int | None, topic_id: UUID = ORDERS) -> list[RebalanceRecord]:
        value = None if offset is None else OffsetCommitValue(offset=offset, commit_timestamp=at, topic_id=topic_id)
        return self.write(at, OffsetCommitKey(group="g", topic="orders", partition=partition), value)

    # -- classic

    def generation(
        self,
        at: Millis,
        number: int,
        protocol: str | None = "range",
        topic: str = "orders",
        kept: dict[str, tuple[int, ...]] | None = None,
        **members: tuple[int, ...],
    ) -> list[RebalanceRecord]:
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=number,
            protocol=protocol if members else None,
            leader=next(iter(members), None),
            members=[_classic(name, topic, assigned, (kept or {}).get(name, ())) for name, assigned in members.items()],
        )
        return self.write(at, GroupMetadataKey(group="g"), value)

    def classic_deleted(self, at: Millis) -> list[RebalanceRecord]:
        return self.write(at, GroupMetadataKey(group="g"), None)

    # -- consumer

    def member(
        self, at: Millis, name: str, topic: str = "orders", client_id: str | None = None
    ) -> list[RebalanceRecord]:
        value = ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id=name if client_id is None else client_id,
            client_host=f"/10.0.0.{ord(name)}",
            subscribed_topic_names=[topic],
            subscribed_topic_regex=None,
            server_assignor="uniform",
        )
        return self.write(at, ConsumerGroupMemberMetadataKey(group_id="g", member_id=name), value)

    def member_deleted(self, at: Millis, name: str) -> list[RebalanceRecord]:
        assert not self.write(at, ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id=name), None)
        return self.write(at, ConsumerGroupMemberMetadataKey(group_id="g", member_id=name), None)

    def consumer_deleted(self, at: Millis) -> list[RebalanceRecord]:
        return self.write(at, ConsumerGroupMetadataKey(group_id="g"), None)

    def epoch(self, at: Millis, epoch: int, metadata_hash: int = 1) -> list[RebalanceRecord]:
        value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
        return self.write(at, ConsumerGroupMetadataKey(group_id="g"), value)

    def target(self, at: Millis, epoch: int) -> list[RebalanceRecord]:
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)
        return self.write(at, ConsumerGroupTargetAssignmentMetadataKey(group_id="g"), value)

    def current(
        self,
        at: Millis,
        name: str,
        epochs: tuple[int, int],
        assigned: tuple[int, ...],
        *,
        revoking: tuple[int, ...] = (),
        waits: bool = False,
    ) -> list[RebalanceRecord]:
        previous, epoch = epochs
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch,
            previous_member_epoch=previous,
            state=1 if revoking else 2 if waits else 0,
            assigned_partitions=_partitions(assigned),
            partitions_pending_revocation=_partitions(revoking),
        )
        return self.write(at, ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id=name), value)


def _partitions(numbers: tuple[int, ...]) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=ORDERS, partitions=list(numbers))] if numbers else []


def _classic(name: str, topic: str, assigned: tuple[int, ...], kept: tuple[int, ...]) -> MemberMetadata:
    return MemberMetadata(
        member_id=name,
        client_id=name,
        client_host=f"/10.0.0.{ord(name)}",
        session_timeout=45_000,
        subscription=encode_subscription(Subscription([topic], owned_partitions=sorted(orders(*kept)))),
        assignment=encode_assignment(Assignment(sorted(orders(*assigned)))),
    )
