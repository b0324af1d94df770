"""What the coordinator wrote of a group into `__consumer_offsets`: every generation and every commit, in order.

It is the same topic in Apache Kafka and in ours, so the same reading tells of both.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import confluent_kafka

from kohort.wire.consumer_protocol import decode_assignment
from kohort.wire.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
)

OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of the group, and which partitions each member was given; members by their client id."""

    number: int
    protocol: str | None
    owners: tuple[tuple[str, frozenset[int]], ...]


@dataclass(frozen=True, slots=True)
class GroupLog:
    """The group's history."""

    generations: list[Generation] = field(default_factory=list)
    commits: dict[int, list[int]] = field(default_factory=dict)
    """The offsets that were committed for each partition, in order."""


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
    if key_bytes is None or value_bytes is None:
        return  # a tombstone deletes, which no member does here
    key = decode_key(key_bytes)
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


def java_hash(text: str) -> int:
    """String.hashCode of ASCII text without its sign: where Kafka looks for a group."""
    value = 0
    for letter in text:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    return min(value, (1 << 32) - value) % (1 << 31)
