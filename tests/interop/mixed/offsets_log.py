"""What the coordinator wrote of a group into `__consumer_offsets`: every generation and every commit, in order.

It is the same topic in Apache Kafka and in ours, so the same reading tells of both.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from itertools import chain

import confluent_kafka

from kohort.model import UUID
from kohort.wire.group_log.group_bytes import decode_key, decode_value
from kohort.wire.messages.consumer_protocol import decode_assignment
from kohort.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

OFFSETS_TOPIC = "__consumer_offsets"

Owned = tuple[UUID, int]
"""A topic's id and a partition."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of the group, and which partitions each member was given; members by their client id."""

    number: int
    protocol: str | None
    owners: tuple[tuple[str, frozenset[int]], ...]


@dataclass(slots=True)
class GroupLog:
    """The group's history."""

    generations: list[Generation] = field(default_factory=list)
    commits: dict[int, list[int]] = field(default_factory=dict)
    """The offsets that were committed for each partition, in order."""
    owned: dict[str, frozenset[Owned]] = field(default_factory=dict)
    """In a consumer group, by member id: what it has, or was told to give up and did not report gone."""
    moves: int = 0
    """How often a member of a consumer group was given something else."""
    owned_twice: list[str] = field(default_factory=list)
    """Partitions that two members of a consumer group had at the same time."""

    def give(self, member_id: str, owned: frozenset[Owned]) -> None:
        """A member has this now."""
        self.moves += 1
        for other, theirs in self.owned.items():
            if other != member_id and owned & theirs:
                shared = sorted(partition for _, partition in owned & theirs)
                self.owned_twice.append(f"record {self.moves}: {member_id} and {other} both have partitions {shared}")
        self.owned[member_id] = owned


def read_group_log(bootstrap: str, group: str) -> GroupLog:
    """From the first record that is still there to the last that is there now."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"reader-{uuid.uuid4()}", "enable.partition.eof": True}
    )
    try:
        count = len(consumer.list_topics(OFFSETS_TOPIC, 10.0).topics[OFFSETS_TOPIC].partitions)
        place = confluent_kafka.TopicPartition(
            OFFSETS_TOPIC, java_hash(group) % count, confluent_kafka.OFFSET_BEGINNING
        )
        consumer.assign([place])
        log = GroupLog()
        while True:
            record = consumer.poll(20.0)
            assert record is not None, f"{OFFSETS_TOPIC} did not come to its end"
            error = record.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                return log
            _note(log, group, record.key(), record.value())
    finally:
        consumer.close()


def _note(log: GroupLog, group: str, key_bytes: bytes | None, value_bytes: bytes | None) -> None:
    key = None if key_bytes is None else decode_key(key_bytes)
    if key is None or value_bytes is None:
        if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey) and key.group_id == group:
            log.owned.pop(key.member_id, None)
        return  # other tombstones delete, which no member does here
    match key:
        case OffsetCommitKey(group=name, partition=partition) if name == group:
            value = decode_value(key, value_bytes)
            assert isinstance(value, OffsetCommitValue)
            log.commits.setdefault(partition, []).append(value.offset)
        case GroupMetadataKey(group=name) if name == group:
            value = decode_value(key, value_bytes)
            assert isinstance(value, GroupMetadataValue)
            owners = tuple(
                (member.client_id, frozenset(p.partition for p in decode_assignment(member.assignment).partitions))
                for member in value.members
            )
            log.generations.append(Generation(value.generation, value.protocol, owners))
        case ConsumerGroupCurrentMemberAssignmentKey(group_id=name, member_id=member_id) if name == group:
            value = decode_value(key, value_bytes)
            assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
            topics = chain(value.assigned_partitions, value.partitions_pending_revocation)
            log.give(member_id, frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions))


def java_hash(text: str) -> int:
    """String.hashCode of ASCII text without its sign: where Kafka looks for a group."""
    value = 0
    for letter in text:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    return min(value, (1 << 32) - value) % (1 << 31)
